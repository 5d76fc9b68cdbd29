package storetest

import (
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseWaitTests() []leaseTest {
	return []leaseTest{
		{"released with a wait", leaseWaits, nil},
		{"released with a wait, and what is known of it", leaseWaitRecord, nil},
		{"released with a wait again", leaseWaitRepeated, nil},
		{"released with a wait by who has lost it", leaseWaitLost, nil},
		{"released with a wait in a batch", leaseWaitBatch, nil},
		{"released with a wait, uncounted", leaseWaitUncounted, nil},
		{"released with a wait and begun as often as allowed", leaseWaitExhausted, nil},
		{"what waits is not purged", leaseWaitPurge, nil},
		{"a wait that is too long", leaseWaitInvalid, nil},
		{"a wait is found after a restart", leaseWaitPersists, []func(LeaseFeatures) bool{leasesPersist}},
		{"50 at once when a wait is over", leaseRaceWaited, nil},
		{"50 at once of whom the first gives back with a wait", leaseRaceWaits, nil},
	}
}

// leaseWait is how long keys of the suite wait: longer than their leases.
const leaseWait = 10 * time.Minute

var waiting = lease.Release{Wait: leaseWait}

// waitOver advances the clock past the end of every wait of the usual length.
func (e *leaseEnv) waitOver() { e.Helper(); e.advance(leaseWait + time.Second) }

// wantWaiting requests a key and expects it to wait until about due.
func (e *leaseEnv) wantWaiting(req lease.Request, attempts int, due time.Time) {
	e.Helper()
	a := e.wantBegin(req, lease.Busy, attempts)
	if a.Remaining <= 0 || a.Remaining > leaseWait || !around(a.ExpiresAt, due) {
		e.Fatalf("TryBegin(%+v) = %+v, want it busy until %v", req, a, due)
	}
}

func leaseWaits(e *leaseEnv) {
	req := repeatable("k")
	l := e.beginRequest(req, 1)
	e.giveBack(l, waiting, lease.Released)
	due := e.wantRecord("k", lease.Released, 1, 1).DueAt
	e.runOut() // of the lease, which does not matter
	e.wantUnchanged("k", func() {
		e.wantWaiting(request("k"), 1, due)
		e.wantWaiting(repeatable("k"), 1, due)
		e.wantWaiting(req, 1, due) // the one that had it
		e.mark(l, lease.Released)
		e.renew(l, lease.Released)
	})
	e.waitOver()
	next := e.begin("k", 2)
	if next.Token != 2 {
		e.Errorf("lease = %+v, want the next token", next)
	}
	e.mark(next, lease.Processed)
	e.wantBegin(request("k"), lease.Processed, 2)
}

func leaseWaitRecord(e *leaseEnv) {
	l := e.begin("k", 1)
	if rec := e.read("k"); !rec.DueAt.IsZero() {
		e.Errorf("begun: %+v, want no wait", rec)
	}
	e.giveBack(l, waiting, lease.Released)
	rec := e.wantRecord("k", lease.Released, 1, 1)
	if !around(rec.DueAt, rec.LastSeen.Add(leaseWait)) || !rec.LeaseUntil.IsZero() {
		e.Errorf("released: %+v, want it due %v after it was released, and no lease", rec, leaseWait)
	}
	e.wantWaiting(request("k"), 1, rec.DueAt)
	e.waitOver()
	if past := e.wantRecord("k", lease.Released, 1, 1); past != rec {
		e.Errorf("due: %+v, want it as it was, %+v", past, rec)
	}
	l = e.begin("k", 2)
	if rec := e.wantRecord("k", lease.Busy, 2, 2); !rec.DueAt.IsZero() {
		e.Errorf("begun again: %+v, want no wait", rec)
	}
	e.mark(l, lease.Processed)
	if rec := e.wantRecord("k", lease.Processed, 2, 2); !rec.DueAt.IsZero() {
		e.Errorf("processed: %+v, want no wait", rec)
	}
	e.release(e.begin("other", 1), false, lease.Released)
	if rec := e.wantRecord("other", lease.Released, 1, 1); !rec.DueAt.IsZero() {
		e.Errorf("released without a wait: %+v, want none", rec)
	}
}

func leaseWaitRepeated(e *leaseEnv) {
	l := e.begin("k", 1)
	e.giveBack(l, waiting, lease.Released)
	e.advance(leaseWait / 2)
	e.wantUnchanged("k", func() {
		e.giveBack(l, waiting, lease.Released)
		e.giveBack(l, lease.Release{Wait: lease.MaxTTL, Uncounted: true}, lease.Released)
		e.release(l, false, lease.Released) // ends no wait either
	})
	e.advance(leaseWait/2 + time.Second)
	e.begin("k", 2)

	// A key that was released without a wait gets none by being released again.
	l = e.begin("other", 1)
	e.release(l, false, lease.Released)
	e.wantUnchanged("other", func() { e.giveBack(l, waiting, lease.Released) })
	e.begin("other", 2)
}

func leaseWaitLost(e *leaseEnv) {
	old := e.begin("k", 1)
	e.runOut()
	l := e.begin("k", 2)
	e.wantUnchanged("k", func() { e.giveBack(old, waiting, lease.Lost) })
	e.mark(l, lease.Processed)
	e.wantUnchanged("k", func() { e.giveBack(l, waiting, lease.Processed) })
	e.giveBack(lease.Lease{Key: "other", ID: lease.NewID()}, waiting, lease.Unknown)
	e.begin("other", 1)

	// A lease that has run out, and whose key was not begun since, may be released with a wait.
	l = e.begin("late", 1)
	e.runOut()
	e.giveBack(l, waiting, lease.Released)
	e.wantWaiting(request("late"), 1, e.read("late").DueAt)
}

func leaseWaitBatch(e *leaseEnv) {
	l := e.begin("waits", 1)
	e.giveBack(l, waiting, lease.Released)
	answers := e.tryAll(requests("z new", "waits", "a new"))
	if answers[0].Status != lease.Acquired || answers[1].Status != lease.Busy || answers[2].Status != lease.Acquired {
		e.Fatalf("TryBeginAll() = %+v, want only the second busy", answers)
	}
	e.checkAnswer(answers[1])
	if a := answers[1]; a.Remaining > leaseWait || !around(a.ExpiresAt, e.read("waits").DueAt) {
		e.Errorf("TryBeginAll() = %+v, want it busy until it is due", a)
	}
	e.wantUnchanged("waits", func() {
		if got := e.tryMarkAll([]lease.Lease{l, {Key: "z new", ID: answers[0].LeaseID}}); got[0] != lease.Released || got[1] != lease.Processed {
			e.Errorf("MarkAllProcessed() = %v, want Released for the one that waits", got)
		}
	})
	e.waitOver()
	if again := e.tryAll(requests("waits", "b new")); again[0].Status != lease.Acquired || again[0].Attempts != 2 {
		e.Errorf("TryBeginAll() when it is due = %+v, want the second attempt", again)
	}
	if rec := e.read("waits"); !rec.DueAt.IsZero() {
		e.Errorf("begun again: %+v, want no wait", rec)
	}
}

func leaseWaitUncounted(e *leaseEnv) {
	l := e.begin("k", 1)
	e.giveBack(l, lease.Release{Wait: leaseWait, Uncounted: true}, lease.Released)
	e.wantWaiting(request("k"), 0, e.wantRecord("k", lease.Released, 1, 0).DueAt)
	e.waitOver()
	e.begin("k", 1)
}

// leaseWaitExhausted: Exhausted is returned once the key is due.
func leaseWaitExhausted(e *leaseEnv) {
	req := repeatable("k")
	req.MaxAttempts = 1
	e.giveBack(e.beginRequest(req, 1), waiting, lease.Released)
	due := e.read("k").DueAt
	e.wantUnchanged("k", func() {
		e.wantWaiting(limited("k", 1), 1, due)
		e.wantWaiting(req, 1, due) // the one that had it
	})
	e.waitOver()
	e.wantUnchanged("k", func() {
		e.wantBegin(limited("k", 1), lease.Exhausted, 1)
		e.wantBegin(req, lease.Exhausted, 1)
	})
	e.wantBegin(limited("k", 2), lease.Acquired, 2) // a higher limit gets it
}

// leaseWaitPurge: also keys that were last touched longer ago than the retention.
func leaseWaitPurge(e *leaseEnv) {
	e.giveBack(e.begin("k", 1), lease.Release{Wait: lease.MaxTTL}, lease.Released)
	e.advance(lease.MaxTTL / 2)
	e.wantUnchanged("k", func() {
		n, err := e.s.PurgeLeases(e.ctx, time.Second, 1000)
		if e.must(err, "PurgeLeases"); n != 0 {
			e.Errorf("PurgeLeases(1s) = %d, want 0: the key waits", n)
		}
	})
	e.wantBegin(request("k"), lease.Busy, 1)
	e.advance(LeaseRetention + lease.MaxTTL/2 + minute)
	e.purge(1)
	e.wantRecord("k", lease.Unknown, 0, 0)
}

func leaseWaitInvalid(e *leaseEnv) {
	l := e.begin("k", 1)
	e.wantUnchanged("k", func() {
		for _, wait := range []time.Duration{-1, lease.MaxTTL + 1} {
			_, err := e.s.ReleaseLease(e.ctx, l, lease.Release{Wait: wait, Uncounted: true})
			e.wantInvalidField(err, "Release.Wait", "ReleaseLease")
		}
	})
	e.giveBack(l, lease.Release{Wait: lease.MaxTTL}, lease.Released)
	e.advance(lease.MaxTTL - time.Hour)
	e.wantBegin(request("k"), lease.Busy, 1)
	e.advance(time.Hour + time.Second)
	e.begin("k", 2)
}

func leaseWaitPersists(e *leaseEnv) {
	e.giveBack(e.begin("k", 1), waiting, lease.Released)
	before := e.read("k")
	e.s = e.h.Reopen(e.T, e.s)
	if after := e.read("k"); after != before {
		e.Errorf("record = %+v, want it as it was, %+v", after, before)
	}
	e.wantWaiting(request("k"), 1, before.DueAt)
	e.waitOver()
	e.begin("k", 2)
}

func leaseRaceWaited(e *leaseEnv) {
	e.giveBack(e.begin("k", 1), waiting, lease.Released)
	e.waitOver()
	e.race(50, oneKey, 2)
}

// leaseRaceWaits: callers that asked before the key was released do not get it afterwards.
func leaseRaceWaits(e *leaseEnv) {
	var acquired atomic.Int32
	together(50, func(int) {
		if a := e.try(request("k")); a.Status == lease.Acquired {
			acquired.Add(1)
			e.tryRelease(lease.Lease{Key: "k", ID: a.LeaseID, Token: a.Token}, waiting)
		}
	})
	if n := acquired.Load(); n != 1 {
		e.Errorf("acquired by %d callers, want 1: it waits", n)
	}
	e.wantWaiting(request("k"), 1, e.wantRecord("k", lease.Released, 1, 1).DueAt)
}
