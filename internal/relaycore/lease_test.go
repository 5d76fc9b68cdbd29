package relaycore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// renewed answers the renewal that is wanted and returns it.
func (r *rig) renewed(e Event) Renew {
	r.t.Helper()
	cmd := take[Renew](r)
	r.step(e)
	return cmd
}

// TestLeaving: a lane above the share is released when nothing of it is in flight and no claim reads it;
// until then renewals follow quickly.
func TestLeaving(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lanes := []Lane{{0, 1}, {1, 1}, {2, 1}}
	r.own(lanes...)
	m := msg(1, "k")
	m.Lane = lanes[2]
	r.claimed(m)
	b := r.sent(1)
	r.rests()
	r.step(Woken{})
	claim := take[Claim](r)
	r.pass(2*time.Second - r.at)
	r.renewed(Leased{Lanes: lanes, Share: 1, Total: 3})
	const soon = 250 * time.Millisecond
	for _, tt := range []struct {
		before func()
		lanes  []Lane
		share  int
		want   []int
	}{
		{func() {}, lanes, 1, nil}, // both are being read
		{func() {
			other := m
			other.Position, other.Lane = 2, lanes[1]
			r.step(Claimed{Messages: []Message{other}})
		}, []Lane{lanes[0], lanes[2]}, 1, []int{1}}, // the other one is in flight
		{func() { r.answer(b) }, []Lane{lanes[0], lanes[2]}, 1, nil}, // it is being settled
		{func() { r.stores("1 published") }, []Lane{lanes[0], lanes[2]}, 1, []int{2}},
	} {
		tt.before()
		r.pass(soon)
		if got := r.renewed(Leased{Lanes: tt.lanes, Share: tt.share, Total: 3}); !slices.Equal(got.Give, tt.want) || got.Join {
			t.Fatalf("%+v, want that %v are released", got, tt.want)
		}
	}
	if len(claim.Lanes) != 3 || r.held.count != 0 {
		t.Errorf("%d lanes read, %d messages held, want 3 and none", len(claim.Lanes), r.held.count)
	}
	r.pass(soon)
	r.renewed(Leased{Lanes: lanes[:1], Share: 2, Total: 3})
	r.pass(soon) // below its share, too
	r.renewed(Leased{Lanes: lanes[:1], Share: 1, Total: 3})
	r.pass(2*time.Second - 1)
	none[Renew](r)
	r.pass(1)
	take[Renew](r)
}

// TestLeaseLost: what was claimed in lost lanes is released, and what was in flight changes nothing any
// more. The relay joins again at once. A renewal that fails is repeated.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel, c.RenewInterval = 1, 1, 500*time.Millisecond })
	r.step(Tick{})
	if first := r.renewed(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 1}); !first.Join {
		t.Error("the first renewal does not join")
	}
	r.claimed(msg(1, "k"), msg(2, "k"), msg(3, ""))
	b := r.sent(1)
	r.pass(500 * time.Millisecond)
	r.renewed(LeaseFailed{Err: errTest})
	if _, rep := r.reported(LoopFails); rep.Topic != "lease" || r.Stats().Lanes != 1 {
		t.Errorf("reported %+v, want the failed renewal", rep)
	}
	r.pass(retryBase)
	r.renewed(LeaseFailed{Lost: true, Err: errTest})
	if n, _ := r.reported(LeaseLost); n != 1 || r.Stats().Lanes != 0 || r.Stats().Held != 1 {
		t.Errorf("%d reports, %+v", n, r.Stats())
	}
	if again := r.renewed(Leased{Lanes: []Lane{{0, 3}}, Share: 1, Total: 1}); !again.Join {
		t.Error("the relay does not join again")
	}
	r.answer(b)
	none[Settle](r)
	c := r.reads()
	if r.Stats().Held != 0 || !slices.Equal(c.Again, []int{0}) {
		t.Errorf("held %d, %+v, want everything read from the beginning", r.Stats().Held, c)
	}
}

// TestLeaseLost_Settling: a settlement that finds a lane with another owner drops that lane alone.
func TestLeaseLost_Settling(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize = 2 })
	r.own(Lane{0, 1}, Lane{1, 1})
	other := msg(2, "")
	other.Lane = Lane{1, 1}
	r.claimed(msg(1, ""), other, msg(3, ""), msg(4, "k"), msg(5, "k"))
	one, two := r.sent(1, 2), r.sent(3, 4)
	r.answer(two, accepted, notTaken)
	take[Settle](r)
	r.answer(one)
	r.step(Settled{Lost: []int{0}})
	if n, rep := r.reported(LeaseLost); n != 1 || rep.Count != 1 {
		t.Errorf("reported %+v, want one lane", rep)
	}
	if n, _ := r.reported(Retried); n != 0 {
		t.Error("a retry is reported that was not stored")
	}
	r.stores("1 published, 2 published") // the store knows that one is not ours
	if r.held.count != 0 || len(r.lines) != 0 || r.Stats().Lanes != 1 {
		t.Errorf("%d held, %d lines, %+v", r.held.count, len(r.lines), r.Stats())
	}
}

// TestStepsAside: a relay that gets nothing done lets its lease run out if there are others, rests until
// they could take its lanes, and then has a while to get something done.
func TestStepsAside(t *testing.T) {
	t.Parallel()
	leased := Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 2}
	down := func(r *rig) { // until it steps aside; none of its destinations answers
		r.t.Helper()
		for range 400 {
			r.pass(100 * time.Millisecond)
			for _, cmd := range slices.Clone(r.pending) {
				switch cmd := cmd.(type) {
				case Renew:
					r.renewed(leased)
				case Publish:
					take[Publish](r)
					r.answer(cmd.Batch, slices.Repeat([]Result{unavailable}, len(cmd.Batch.Messages))...)
				}
			}
			if n, _ := r.reported(StepsAside); n > 0 {
				return
			}
		}
		r.t.Fatal("it does not step aside")
	}
	for _, tt := range []struct {
		name string
		then func(t *testing.T, r *rig)
	}{
		{"it is well again", func(t *testing.T, r *rig) {
			r.pass(100 * time.Millisecond)
			r.answer(take[Publish](r).Batch)
			r.pass(2 * time.Second)
			r.renewed(leased)
			if r.aside != (aside{}) {
				t.Errorf("%+v", r.aside)
			}
		}},
		{"it has nothing to send", func(t *testing.T, r *rig) {
			for range 20 {
				r.pass(time.Second)
				for _, cmd := range slices.Clone(r.pending) {
					if _, ok := cmd.(Renew); ok {
						r.renewed(leased)
					}
				}
			}
			if len(r.PausedDests()) != 0 {
				t.Errorf("%v paused, want another try when there is something", r.PausedDests())
			}
		}},
		{"it is still down", func(t *testing.T, r *rig) {
			for range 200 {
				r.pass(100 * time.Millisecond)
				for _, cmd := range slices.Clone(r.pending) {
					switch cmd := cmd.(type) {
					case Renew:
						r.renewed(leased)
					case Publish:
						take[Publish](r)
						r.answer(cmd.Batch, slices.Repeat([]Result{unavailable}, len(cmd.Batch.Messages))...)
					}
				}
			}
			if n, _ := r.reported(StepsAside); n < 2 {
				t.Error("it does not step aside again")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) {
				if c.PollInterval = time.Hour; tt.name == "it has nothing to send" {
					c.Followers = []Dest{{Name: "f"}}
				}
			})
			r.step(Tick{})
			r.renewed(leased)
			r.claimed(msg(1, ""))
			down(r)
			if _, rep := r.reported(StepsAside); !strings.Contains(rep.Err.Error(), "none of its destinations has answered") {
				t.Errorf("reported %v", rep.Err)
			}
			rest := r.cfg.LeaseTTL + 2*r.cfg.RenewInterval
			r.pass(rest - 100*time.Millisecond)
			none[Renew](r)
			r.pending = slices.DeleteFunc(r.pending, func(cmd Command) bool { _, ok := cmd.(Publish); return ok })
			if len(r.dests[0].batches) > 0 {
				r.answer(r.dests[0].batches[0], unavailable)
			}
			if tt.name == "it has nothing to send" {
				r.drop(func(Lane) bool { return true })
			}
			r.pass(2 * time.Second)
			r.renewed(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 2})
			tt.then(t, r)
		})
	}
}

// TestStepsAside_Until: the rest and the grace period end at their last nanosecond.
func TestStepsAside_Until(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.step(Tick{})
	r.renewed(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 2})
	r.reads()
	for range 400 {
		if r.pass(100 * time.Millisecond); r.aside.on {
			break
		}
		if slices.ContainsFunc(r.pending, func(cmd Command) bool { _, ok := cmd.(Renew); return ok }) {
			r.renewed(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 2}) // its claims are not answered
		}
	}
	until := r.aside.until
	for _, tt := range []struct {
		at   Time
		want bool
	}{{until - 1, true}, {until, false}, {until + r.cfg.CallTimeout - 1, false}, {until + r.cfg.CallTimeout, true}} {
		if r.now = tt.at; r.stepsAside() != tt.want {
			t.Errorf("%v before the rest is over: stepsAside() = %t", until-tt.at, !tt.want)
		}
	}
}

// TestStepsAside_Reading: a claim that is not answered is a reason, too, unless there is no other relay.
func TestStepsAside_Reading(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		r := newRig(t, nil)
		r.step(Tick{})
		leased := Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 1}
		if shared {
			leased.Total = 2
		}
		r.renewed(leased)
		r.reads()
		for range 4 {
			r.pass(2 * time.Second)
			r.renewed(leased)
		}
		r.pass(2 * time.Second)
		if n, rep := r.reported(StepsAside); (n == 1) != shared || shared && !strings.Contains(rep.Err.Error(), "claim has not succeeded for 10s") {
			t.Errorf("shared %v: %d reports, %v", shared, n, rep.Err)
		}
	}
}

// TestHealth: what is wrong with a relay is reported, by what has not succeeded for how long.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(r *rig)
		at   time.Duration
		want string
	}{
		{"well", func(*rig) {}, time.Second, ""},
		{"just well", func(*rig) {}, 8 * time.Second, ""},
		{"a message that the store refuses", func(r *rig) {
			r.claimed(msg(1, ""))
			r.answer(r.sent(1))
			take[Settle](r)
			r.step(SettleFailed{Refused: true, Err: errTest})
			r.wellUntil(61 * time.Second)
		}, 61 * time.Second, "settle has not succeeded for 1m1s: the store refuses what became of 1 keys or messages, the first of them at position 1: test"},
		{"no claim", func(*rig) {}, 16 * time.Second, "claim has not succeeded for 16s; lease has not succeeded for 16s"},
		{"a claim that is not answered", func(r *rig) { r.reads() }, 9 * time.Second, "claim has not succeeded for 9s; lease has not succeeded for 9s"},
		{"a release that fails", func(r *rig) {
			take[Release](r)
			r.step(Released{Err: errTest})
			take[Claim](r)
			r.step(Claimed{})
			r.wellUntil(61 * time.Second)
		}, 61 * time.Second, "release has not succeeded for 1m1s: test"},
		{"a settlement that fails", func(r *rig) {
			r.claimed(msg(1, ""))
			r.answer(r.sent(1))
			take[Settle](r)
			r.step(SettleFailed{Err: errTest})
			r.wellUntil(9 * time.Second)
		}, 9 * time.Second, "settle has not succeeded for 9s: test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.own(Lane{0, 1})
			tt.do(r)
			var texts []string
			for _, err := range r.Health(tt.at) {
				var stalled *Stalled
				if texts = append(texts, err.Error()); !errors.As(err, &stalled) || stalled.Err != nil && !errors.Is(err, errTest) {
					t.Errorf("%v is no *Stalled of the error", err)
				}
			}
			if got := strings.Join(texts, "; "); got != tt.want {
				t.Errorf("Health() = %q, want %q", got, tt.want)
			}
		})
	}
}

// wellUntil lets claims and renewals succeed until a time.
func (r *rig) wellUntil(until time.Duration) {
	r.read.tries.ok, r.lease.tries.ok = until, until
}

// TestLease_GiveUp: a lane that leaves is released when nothing of it is in flight and it is not being
// read; what waits in memory of it is dropped at once.
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

// TestLease_OthersAreRead: a lane that is not being read is released while others are.
func TestLease_OthersAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lanes := []Lane{{0, 1}, {1, 1}}
	r.own(lanes...)
	r.claimed()
	r.rests()
	r.pass(2*time.Second - r.at)
	r.renewed(Leased{Lanes: lanes, Share: 1, Total: 2})
	r.step(Woken{})
	r.reads() // the other lane only, which goes on
	r.pass(time.Second)
	if got := r.renewed(Leased{Lanes: lanes[:1], Share: 1, Total: 2}); !slices.Equal(got.Give, []int{1}) {
		t.Errorf("releases %v while the other lane is read, want 1", got.Give)
	}
}
