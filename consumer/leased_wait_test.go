package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

// TestLeased_RetryWaits: whoever delivers early, and whichever consumer gets it, the attempt is
// begun when it is due; one that comes when it is due does not wait.
func TestLeased_RetryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		fail := func(context.Context, *waybill.Message) error { calls++; return errors.New("broken") }
		retry := func(_ *Leases, cfg *Config) {
			cfg.Retry = waybill.RetryPolicy{BaseDelay: time.Minute, DisableJitter: true}
		}
		tr, other := newTrial(t, fail, retry), newTrial(t, fail, retry)
		other.Leased.store = tr.store
		v := tr.deliver(t, false)
		if due := time.Now().Add(v.after); v != again(time.Minute) || !tr.store.rec.DueAt.Equal(due) {
			t.Errorf("%+v, due at %v, want it when the delivery comes again", v, tr.store.rec.DueAt)
		}
		<-time.After(20 * time.Second)
		for name, by := range map[string]*trial{"the same": tr, "another": other} {
			if v := by.deliver(t, true); !v.again || v.after < 40*time.Second || v.after > 44*time.Second || calls != 1 || by.noted.count(observe.OpBusy) != 1 {
				t.Errorf("early, by %s: %+v after %d calls, want it deferred for what is left", name, v, calls)
			}
		}
		<-time.After(40 * time.Second)
		if v := other.deliver(t, true); v != again(time.Minute) || calls != 2 || tr.store.rec.Attempts != 2 {
			t.Errorf("when it is due: %+v after %d calls, want the second attempt", v, calls)
		}
	})
}

// TestLeased_LongRetry: a delay that is longer than a store lets a key wait.
func TestLeased_LongRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(context.Context, *waybill.Message) error { return errors.New("broken") }, func(_ *Leases, cfg *Config) {
			cfg.Retry = waybill.RetryPolicy{BaseDelay: 48 * time.Hour, DisableJitter: true}
			cfg.AllowShortRetention = true
		})
		if v := tr.deliver(t, false); v != again(48*time.Hour) || tr.store.rec.Status != lease.Released || time.Until(tr.store.rec.DueAt) != lease.MaxTTL {
			t.Errorf("%+v, record %+v, want it released for the longest wait", v, tr.store.rec)
		}
	})
}

// TestLeased_UncountedDoesNotWait: what met an outage may be tried by others at once.
func TestLeased_UncountedDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(context.Context, *waybill.Message) error { return errAway }, nil)
		if v := tr.deliver(t, false); !v.uncounted || tr.store.rec.Status != lease.Released || !tr.store.rec.DueAt.IsZero() {
			t.Errorf("%+v, record %+v, want it released without a wait", v, tr.store.rec)
		}
	})
}
