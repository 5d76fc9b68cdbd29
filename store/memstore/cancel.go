package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// CancelEnqueued implements [outbox.Store].
func (s *Store) CancelEnqueued(_ context.Context, tx *Tx, id outbox.Identity) (outbox.Cancellation, error) {
	if err := tx.step("cancel a message"); err != nil {
		return outbox.Cancellation{}, err
	}
	out, _ := s.cancel(tx, id, settleplan.CancelledByWriter)
	return out, nil
}

// CancelMessage implements [deadletter.Canceller].
func (s *Store) CancelMessage(ctx context.Context, id outbox.Identity, act deadletter.Act) (out outbox.Cancellation, err error) {
	if err := errors.Join(act.Check(), id.Check()); err != nil {
		return out, err
	}
	err = s.inTx(ctx, func(tx *Tx) error {
		var letters []int64
		out, letters = s.cancel(tx, id, act.Why)
		for _, number := range letters {
			s.audit(tx, deadletter.ActCancelMessage, act, deadletter.Entry{Letter: number, MessageID: id.ID})
		}
		return nil
	})
	if err != nil {
		return outbox.Cancellation{}, err
	}
	if out.Removed > 0 {
		s.WakeRelay()
	}
	return out, nil
}

// cancel makes a message a discarded letter wherever it is, and returns the numbers of the letters.
func (s *Store) cancel(tx *Tx, id outbox.Identity, why string) (out outbox.Cancellation, letters []int64) {
	claims, inFlight := s.cancellable(id)
	s.settle(tx, settleplan.Cancel(claims), contract.SettleRequest{})
	removed := make(map[place]bool)
	for _, c := range claims {
		removed[place{c.Position, c.Destination}] = true
	}
	for _, r := range s.data.scheduled {
		if r.identity() == id {
			s.unschedule(tx, r)
			s.bury(tx, waitingRow{row: r}, settleplan.Row{Reason: waybill.ReasonCancelled, Error: settleplan.CancelledError})
			removed[place{r.position, ""}] = true
		}
	}
	for _, l := range sorted(s.data.letters, func(l letter) bool {
		return l.identity() == id && l.State == deadletter.Open && l.Reason == waybill.ReasonCancelled && removed[place{l.position, l.Destination}]
	}, func(l letter) int64 { return l.Number }) {
		s.settleAs(tx, l, deadletter.Discarded, why)
		letters = append(letters, l.Number)
	}
	return outbox.Cancellation{Removed: len(letters), InFlight: inFlight}, letters
}

// cancellable returns what is pending or waits with an identity, and whether a relay may have claimed
// some of it.
func (s *Store) cancellable(id outbox.Identity) (claims []contract.Claim, inFlight bool) {
	add := func(r row, c contract.Claim, due time.Time) {
		if r.identity() != id {
			return
		}
		c.Message, c.Position = r.message, r.position
		claims = append(claims, c)
		inFlight = inFlight || !due.After(s.now()) && s.data.lanes[r.lane].owner != ""
	}
	for _, r := range s.data.outbox {
		add(r, contract.Claim{}, r.message.DeliverAt)
	}
	for _, w := range s.data.waiting {
		add(w.row, contract.Claim{Waiting: true, Destination: w.destination, Attempts: w.attempts}, w.due)
	}
	return claims, inFlight
}
