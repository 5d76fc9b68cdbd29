package rows

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// CancelMessage implements [deadletter.Canceller].
func (e *Engine[S]) CancelMessage(ctx context.Context, id outbox.Identity, act deadletter.Act) (out outbox.Cancellation, err error) {
	if err := errors.Join(act.Check(), id.Check()); err != nil {
		return out, err
	}
	err = e.run(ctx, func(ctx context.Context, t *Tx) (err error) {
		var cancelled []*Letter
		if out, cancelled, err = t.cancel(ctx, id, act.Why); err != nil {
			return err
		}
		return each(cancelled, func(l *Letter) error {
			return t.Note(ctx, deadletter.ActCancelMessage, act, deadletter.Entry{Letter: l.Number, MessageID: id.ID})
		})
	})
	if err != nil {
		return outbox.Cancellation{}, err
	}
	if out.Removed > 0 {
		e.store.WakeRelay()
	}
	return out, nil
}

// Cancel makes a message a discarded dead letter wherever it is, for the program that has enqueued it.
func (t *Tx) Cancel(ctx context.Context, id outbox.Identity) (outbox.Cancellation, error) {
	out, _, err := t.cancel(ctx, id, settleplan.CancelledByWriter)
	return out, err
}

// cancel makes a message a discarded dead letter wherever it is. A transaction that moves it at the same time
// conflicts with this one.
func (t *Tx) cancel(ctx context.Context, id outbox.Identity, why string) (out outbox.Cancellation, cancelled []*Letter, err error) {
	claims, inFlight, err := t.cancellable(ctx, id)
	if err == nil {
		err = t.settle(ctx, settleplan.Cancel(claims), contract.SettleRequest{})
	}
	if err != nil {
		return out, nil, err
	}
	positions := make([]int64, len(claims))
	for i, c := range claims {
		positions[i] = c.Position
	}
	scheduled, err := t.Scheduled.Find(ctx, where(ready.same(id)...))
	if err != nil {
		return out, nil, err
	}
	for _, s := range scheduled {
		positions = append(positions, s.Position)
		if err := t.Scheduled.Delete(ctx, s.Position); err != nil {
			return out, nil, err
		}
		if err := t.bury(ctx, &Waiting{Row: *s}, settleplan.Row{Reason: waybill.ReasonCancelled, Error: settleplan.CancelledError}); err != nil {
			return out, nil, err
		}
	}
	these := append(letters.same(id), letters.Position.in(positions...), letters.Why.is(string(waybill.ReasonCancelled)), letters.State.is(deadletter.Open))
	cancelled, err = t.Letters.Find(ctx, where(these...).sorted(letters.Number.rising()))
	if err == nil {
		err = each(cancelled, func(l *Letter) error { return t.settleAs(ctx, l, deadletter.Discarded, why) })
	}
	return outbox.Cancellation{Removed: len(cancelled), InFlight: inFlight}, cancelled, err
}

// cancellable locks the lanes of the message's pending and waiting rows, and returns these, and whether a relay
// may have claimed some of them.
func (t *Tx) cancellable(ctx context.Context, id outbox.Identity) (claims []contract.Claim, inFlight bool, err error) {
	add := func(r *Row, c contract.Claim, due bool) error {
		c.Message, c.Position, c.Lane.Number = r.Message, r.Position, r.Lane
		claims = append(claims, c)
		if err := t.Lock(ctx, r.Lane); err != nil {
			return err
		}
		l, err := get(ctx, t.Lanes, r.Lane)
		inFlight = inFlight || due && l != nil && l.Owner != ""
		return err
	}
	pending, err := t.Outbox.Find(ctx, where(ready.same(id)...))
	if err == nil {
		err = each(pending, func(r *Row) error { return add(r, contract.Claim{}, !r.Message.DeliverAt.After(t.Now)) })
	}
	if err != nil {
		return nil, false, err
	}
	waiting, err := t.Waiting.Find(ctx, where(waits.same(id)...))
	if err == nil {
		err = each(waiting, func(w *Waiting) error {
			return add(&w.Row, contract.Claim{Waiting: true, Destination: w.Destination, Attempts: w.Attempts}, !w.DueAt.After(t.Now))
		})
	}
	return claims, inFlight, err
}
