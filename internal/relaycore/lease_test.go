package relaycore

import (
	"slices"
	"testing"
	"time"
)

// TestLease_GiveUp: a lane that leaves is given up when nothing of it is in flight and it is not being
// read; what waits in memory of it is let go of at once.
func TestLease_GiveUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 1, 1 })
	r.own(Lane{0, 1}, Lane{1, 1})
	first, second := msg(1, "k"), msg(2, "k")
	first.Lane, second.Lane = Lane{1, 1}, Lane{1, 1}
	take[Release](r)
	r.step(Released{})
	take[Claim](r)
	r.step(Claimed{Messages: []Message{first, second}, Full: true})
	b := take[Publish](r).Batch
	r.pass(2 * time.Second)
	take[Renew](r)
	r.step(Leased{Lanes: []Lane{{0, 1}, {1, 1}}, Share: 1, Total: 2})
	if r.Stats().Held != 1 {
		t.Errorf("%d messages are held of a lane that leaves, want the one in flight", r.Stats().Held)
	}
	give := func(when string, want ...int) {
		t.Helper()
		r.pass(2 * time.Second)
		if got := take[Renew](r).Give; !slices.Equal(got, want) {
			t.Errorf("%s: give %v, want %v", when, got, want)
		}
		r.step(Leased{Lanes: []Lane{{0, 1}, {1, 1}}, Share: 1, Total: 2})
	}
	give("in flight")
	r.step(Answered{Batch: b})
	give("being settled")
	take[Settle](r)
	r.step(Settled{})
	give("being read")
	take[Claim](r)
	r.step(Claimed{})
	give("idle", 1)
}

// TestLease_Until: the lease holds from the request on, not from the answer.
func TestLease_Until(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.step(Tick{})
	take[Renew](r)
	r.at += 3 * time.Second
	r.step(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 1})
	if got, want := r.Stats().LeaseUntil, 8*time.Second; got != want {
		t.Errorf("the lease holds until %v, want %v", got, want)
	}
}

// TestLease_Failed: a renewal that fails is repeated soon; a relay that has lost its lease forgets what it
// holds and joins again at once.
func TestLease_Failed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 1, 1 })
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, "k"))
	r.pass(2 * time.Second)
	take[Renew](r)
	r.step(LeaseFailed{Err: errTest})
	none[Renew](r)
	r.at = r.Next()
	r.step(Tick{})
	if c := take[Renew](r); c.Join || r.at > 2*time.Second+retryBase {
		t.Errorf("renewed by %+v at %v, want it after %v, and no join", c, r.at, retryBase)
	}
	r.step(LeaseFailed{Lost: true, Err: errTest})
	if c := take[Renew](r); !c.Join || r.Stats().Held != 1 || r.Stats().Lanes != 0 {
		t.Errorf("after a loss %+v with %+v, want a join, and nothing held but what is in flight", c, r.Stats())
	}
}
