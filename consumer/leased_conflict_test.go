package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

// conflictTrial is a consumer that has handled a message with the payload "one".
func conflictTrial(t *testing.T, policy ConflictPolicy) *trial {
	t.Helper()
	tr := newTrial(t, func(_ context.Context, m *waybill.Message) error {
		if string(m.Payload) != "one" {
			t.Errorf("the handler runs for %q, want it for the first message only", m.Payload)
		}
		return nil
	}, func(_ *Leases, cfg *Config) {
		cfg.OnConflict = policy
		cfg.Retry = waybill.RetryPolicy{MaxRetries: 2, BaseDelay: time.Minute, MaxDelay: time.Hour, DisableJitter: true}
	})
	if v := tr.deliverPayload(t, "one", false); v != done {
		t.Fatalf("the first message: %+v, want it done", v)
	}
	return tr
}

// wantLetter expects the one letter of the message with the payload "two".
func (tr *trial) wantLetter(t *testing.T, reason waybill.Reason, attempts int) {
	t.Helper()
	if len(tr.letters) != 1 {
		t.Fatalf("%d letters, want one", len(tr.letters))
	}
	if l := tr.letters[0]; l.Reason != reason || l.Attempts != attempts || string(l.Message.Payload) != "two" || l.Record.Key.Message != "" {
		t.Errorf("letter = %+v, want %s after %d attempts, with no key", l, reason, attempts)
	}
}

func TestLeased_ConflictBuried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := conflictTrial(t, ConflictBury)
		if v := tr.deliverPayload(t, "one", true); v != done || tr.noted.count(observe.OpConflict) != 0 {
			t.Errorf("a copy of the first: %+v, want a duplicate and no conflict", v)
		}
		for range 2 { // the second is a copy
			if v := tr.deliverPayload(t, "two", false); v != done {
				t.Errorf("%+v, want it done", v)
			}
		}
		tr.wantLetter(t, waybill.ReasonConflict, 1)
		if n := tr.noted.count(observe.OpConflict); n != 1 || tr.store.marks != 1 || tr.store.rec.Attempts != 1 {
			t.Errorf("%d conflicts, record of the first %+v, want one, and the record as it was", n, tr.store.rec)
		}
		if n := tr.noted.count(observe.OpDuplicate); n != 2 {
			t.Errorf("%d duplicates, want both copies", n)
		}
	})
}

func TestLeased_ConflictSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := conflictTrial(t, ConflictSkip)
		for range 2 {
			if v := tr.deliverPayload(t, "two", false); v != done {
				t.Errorf("%+v, want it done", v)
			}
		}
		if n := tr.noted.count(observe.OpConflict); n != 2 || len(tr.letters) != 0 || tr.store.conflict != nil {
			t.Errorf("%d conflicts and %d letters, want two and none, and nothing stored", n, len(tr.letters))
		}
	})
}

// TestLeased_ConflictRetried: attempts count, and wait, as those of a handler.
func TestLeased_ConflictRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := conflictTrial(t, ConflictRetry)
		for i, want := range []time.Duration{time.Minute, 2 * time.Minute} {
			if v := tr.deliverPayload(t, "two", i > 0); v != again(want) {
				t.Errorf("attempt %d: %+v, want it again after %v", i+1, v, want)
			}
			if v := tr.deliverPayload(t, "two", true); !v.again || tr.noted.count(observe.OpConflict) != i+1 {
				t.Errorf("early: %+v and %d conflicts, want it deferred unseen", v, tr.noted.count(observe.OpConflict))
			}
			<-time.After(want)
		}
		if v := tr.deliverPayload(t, "two", true); v != done {
			t.Errorf("last attempt: %+v, want it done", v)
		}
		tr.wantLetter(t, waybill.ReasonExhausted, 3)
		if tr.store.rec.Attempts != 1 || tr.store.rec.Status != lease.Processed {
			t.Errorf("record of the first = %+v, want it as it was", tr.store.rec)
		}
	})
}

// TestLeased_ConflictLetterIsNotStored: the message comes again, and the attempt does not count.
func TestLeased_ConflictLetterIsNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := conflictTrial(t, ConflictBury)
		bury := tr.buryLetter
		tr.buryLetter = func(context.Context, inbox.Letter) (bool, error) { return false, errAway }
		if v := tr.deliverPayload(t, "two", false); !v.again || !v.uncounted {
			t.Errorf("%+v, want it again, uncounted", v)
		}
		tr.buryLetter = bury
		if v := tr.deliverPayload(t, "two", true); v != done {
			t.Errorf("%+v, want it done", v)
		}
		tr.wantLetter(t, waybill.ReasonConflict, 1)
	})
}

// TestLeased_ConflictStoreAway: also who handles messages without a lease does not handle one
// that is known to be in conflict.
func TestLeased_ConflictStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := conflictTrial(t, ConflictBury)
		tr.leases.FailOpen = true
		tr.store.conflict = &leaseStub{key: "any", away: true}
		tr.store.conflict.conflict = tr.store.conflict
		if v := tr.deliverPayload(t, "two", false); !v.again || !v.uncounted || len(tr.letters) != 0 {
			t.Errorf("%+v, want it again, uncounted", v)
		}
	})
}
