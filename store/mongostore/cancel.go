package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// CancelEnqueued implements [outbox.Store], in the transaction of session.
func (s *Store) CancelEnqueued(ctx context.Context, session *mongo.Session, id outbox.Identity) (out outbox.Cancellation, err error) {
	ctx, err = within(ctx, session)
	if err != nil {
		return out, err
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err == nil {
		out, _, err = (&tx{s, session, now}).cancel(ctx, id, settleplan.CancelledByWriter)
	}
	return out, wrap("cancel a message", err)
}

// CancelMessage implements [deadletter.Canceller].
func (s *Store) CancelMessage(ctx context.Context, id outbox.Identity, act deadletter.Act) (out outbox.Cancellation, err error) {
	if err := errors.Join(act.Check(), id.Check()); err != nil {
		return out, err
	}
	err = s.inTx(ctx, func(ctx context.Context, t *tx) (err error) {
		var letters []letterDoc
		if out, letters, err = t.cancel(ctx, id, act.Why); err != nil {
			return err
		}
		return each(letters, func(l letterDoc) error {
			return t.note(ctx, deadletter.ActCancelMessage, act, deadletter.Entry{Letter: l.ID, MessageID: id.ID})
		})
	})
	if err != nil {
		return outbox.Cancellation{}, err
	}
	if out.Removed > 0 {
		s.WakeRelay()
	}
	return out, nil
}

// cancel makes a message a discarded letter wherever it is. Who moves it at the same time meets this
// transaction, and one of both fails.
func (t *tx) cancel(ctx context.Context, id outbox.Identity, why string) (out outbox.Cancellation, letters []letterDoc, err error) {
	these := ofMessage(&messageDoc{ID: id.ID, Source: id.Source, Tenant: id.Tenant})
	claims, inFlight, err := t.cancellable(ctx, these)
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
	scheduled, err := find[readyDoc](ctx, t.scheduled, these)
	if err != nil {
		return out, nil, err
	}
	for _, d := range scheduled {
		positions = append(positions, d.ID)
		if err := remove(ctx, t.scheduled, d.ID); err != nil {
			return out, nil, err
		}
		if err := t.bury(ctx, waitingDoc{Row: d.Row}, settleplan.Row{Reason: waybill.ReasonCancelled, Error: settleplan.CancelledError}); err != nil {
			return out, nil, err
		}
	}
	these["row.position"], these["reason"], these["state"] = in(positions), waybill.ReasonCancelled, deadletter.Open
	letters, err = find[letterDoc](ctx, t.letters, these, sorted("_id"))
	if err == nil {
		err = each(letters, func(l letterDoc) error { return t.settleAs(ctx, l, deadletter.Discarded, why) })
	}
	return outbox.Cancellation{Removed: len(letters), InFlight: inFlight}, letters, err
}

// cancellable locks the lanes of what is pending or waits, and returns it, and whether a relay may have
// claimed some of it.
func (t *tx) cancellable(ctx context.Context, these bson.M) (claims []contract.Claim, inFlight bool, err error) {
	add := func(r rowDoc, c contract.Claim, due bool) error {
		c.Message, c.Position, c.Lane.Number = r.Message.message(), r.Position, r.Lane
		claims = append(claims, c)
		if err := t.lockLanes(ctx, r.Lane); err != nil {
			return err
		}
		l, _, err := findOne[laneDoc](ctx, t.lanes, bson.M{"_id": r.Lane})
		inFlight = inFlight || due && l.Owner != ""
		return err
	}
	pending, err := find[readyDoc](ctx, t.outbox, these)
	if err == nil {
		err = each(pending, func(d readyDoc) error { return add(d.Row, contract.Claim{}, d.Row.Message.DeliverAt <= micros(t.now)) })
	}
	if err != nil {
		return nil, false, err
	}
	waiting, err := find[waitingDoc](ctx, t.waiting, these)
	if err == nil {
		err = each(waiting, func(w waitingDoc) error {
			c := contract.Claim{Waiting: true, Destination: w.Row.Destination, Attempts: w.Attempts}
			return add(w.Row, c, w.DueAt == nil || !w.DueAt.After(t.now))
		})
	}
	return claims, inFlight, err
}
