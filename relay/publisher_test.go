package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// killer is a publisher whose connection ends whenever a message is on it.
type killer struct{ id string }

func (k killer) Send(_ context.Context, msgs []Outgoing) func() []error {
	errs := make([]error, len(msgs))
	for _, m := range msgs {
		if m.ID == k.id {
			for i := range errs {
				errs[i] = waybill.UnavailableError(waybill.ErrConnectionLost)
			}
		}
	}
	return func() []error { return errs }
}

func TestDedupID(t *testing.T) {
	t.Parallel()
	for life, want := range map[int]string{0: "m", 1: "m#r1", 12: "m#r12"} {
		if got := dedupID("m", life); got != want {
			t.Errorf("dedupID(life %d) = %q, want %q", life, got, want)
		}
	}
}

func TestDueTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDueTimes()
		if got := d.next(time.Minute); got != time.Minute {
			t.Errorf("next() = %v with nothing due, want the limit", got)
		}
		d.in(3 * time.Second)
		d.in(time.Second)
		if got := d.next(time.Minute); got < time.Second || got > time.Second+2*dueTick {
			t.Errorf("next() = %v, want a second", got)
		}
		time.Sleep(1100 * time.Millisecond)
		if !d.passed() {
			t.Error("a due time has passed and is not told")
		}
		if got := d.next(time.Minute); got < 1800*time.Millisecond || got > 2*time.Second {
			t.Errorf("next() = %v, want what is left of the other", got)
		}
	})
}

func TestSend_PublisherWithTooFewResults(t *testing.T) {
	t.Parallel()
	o := newOutlet(Destination{Publisher: short{}}, time.Second)
	errs := o.send(t.Context(), []*Claim{{Position: 1}, {Position: 2}}, false)
	if len(errs) != 2 || !waybill.IsUnavailable(errors.Join(errs...)) {
		t.Errorf("send() = %v, want every message unavailable", errs)
	}
}

type short struct{}

func (short) Send(context.Context, []Outgoing) func() []error { return func() []error { return nil } }
