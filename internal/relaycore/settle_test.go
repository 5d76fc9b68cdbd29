package relaycore

import (
	"slices"
	"testing"
	"time"
)

// TestSettle_Repeated: a settlement of unknown outcome is repeated, with nothing new in it, until the
// store answers; after a minute that is reported.
func TestSettle_Repeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize, c.LeaseTTL = 1, time.Hour })
	r.own(Lane{0, 1})
	r.claimed(msg(1, ""), msg(2, ""))
	one, two := r.sent(1), r.sent(2)
	r.rests()
	r.answer(one)
	take[Settle](r)
	r.step(SettleFailed{Err: errTest})
	r.answer(two)
	wait := settleBase
	for range 60 {
		if next := r.Next(); next > r.at+wait {
			t.Fatalf("Next() = %v, want after %v", next-r.at, wait)
		}
		r.pass(wait - 1)
		none[Settle](r)
		r.pass(1)
		if got := say(take[Settle](r).Settlements); got != "1 published" {
			t.Fatalf("stored %q, want the same again", got)
		}
		r.step(SettleFailed{Err: errTest})
		wait = min(2*wait, settleMax)
	}
	if n, rep := r.reported(SettleStalls); n != 1 || rep.Delay < time.Minute {
		t.Errorf("%d reports, %+v, want one after a minute", n, rep)
	}
	r.pass(wait)
	r.stores("1 published")
	r.stores("2 published")
}

// TestRefused_Key: what comes for a key of which the store refuses something waits with it, in order.
// That is tried again after longer and longer, and reported after a minute.
func TestRefused_Key(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Strict, c.LeaseTTL = true, time.Hour })
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, "k"), msg(3, ""))
	r.answer(r.sent(1, 3), accepted, notTaken)
	r.answer(r.sent(2))
	take[Settle](r)
	r.step(SettleFailed{Refused: true, Err: errTest})
	if got := say(take[Settle](r).Settlements); got != "1 published" {
		t.Fatalf("stored %q, want a half", got)
	}
	r.step(SettleFailed{Refused: true, Err: errTest})
	r.stores("3 waits 1s failed 1")
	none[Settle](r) // 2 waits with 1
	for _, delay := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		r.pass(delay*time.Second - 1)
		none[Settle](r)
		if next := r.Next(); next != r.at+1 {
			t.Fatalf("Next() = %v, want in a nanosecond", next-r.at)
		}
		r.pass(1)
		if got := say(take[Settle](r).Settlements); got != "1 published, 2 published" {
			t.Fatalf("stored %q, want what is refused again", got)
		}
		r.step(SettleFailed{Refused: true, Err: errTest})
	}
	if n, _ := r.reported(SettleStalls); n != 1 {
		t.Errorf("%d reports, want one", n)
	}
	r.pass(30 * time.Second)
	r.reads()
	r.step(Claimed{Messages: []Message{msg(4, "k")}})
	take[Settle](r)
	r.answer(r.sent(4)) // while they are tried
	r.step(Settled{})
	r.stores("4 published")
	if r.Stats().Held != 0 {
		t.Errorf("%d are held", r.Stats().Held)
	}
}

// TestExpected: what an outcome makes due is looked for when it is due.
func TestExpected(t *testing.T) {
	t.Parallel()
	early := func(m *Message) { m.DelayFor = 2 * time.Second }
	for _, tt := range []struct {
		name   string
		change func(*Message)
		result Result
		after  time.Duration // 0: at the next poll
	}{
		{"published", func(*Message) {}, accepted, 0},
		{"published with a follower", func(*Message) {}, Result{Followers: []string{"f"}}, dueTick},
		{"published after it has waited", func(m *Message) { m.Waiting = true }, accepted, dueTick},
		{"tried again", func(*Message) {}, notTaken, time.Second + dueTick},
		{"dead", func(*Message) {}, Result{Err: errTest, Kind: nobody.Kind, Reason: "x"}, dueTick},
		{"scheduled", early, accepted, 2*time.Second + dueTick},
		{"behind", func(m *Message) { m.Blocked = true }, accepted, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.Followers, c.PollInterval = []Dest{{Name: "f"}}, time.Hour })
			r.own(Lane{0, 1})
			m := msg(1, "k")
			tt.change(&m)
			r.claimed(m)
			if slices.ContainsFunc(r.pending, func(c Command) bool { _, ok := c.(Publish); return ok }) {
				r.answer(r.sent(1), tt.result)
			}
			take[Settle](r)
			r.step(Settled{})
			r.pass(claimInterval)
			want := time.Hour
			if tt.after > 0 {
				want = tt.after.Truncate(dueTick)
			}
			if got := take[Await](r).Until; got != time.Hour {
				t.Errorf("waits until %v", got)
			}
			r.lease.tries.until = never
			r.step(Tick{})
			if next := r.Next(); next != want {
				t.Errorf("Next() = %v, want %v", next, want)
			}
			if tt.after > 0 {
				r.pass(want - r.at)
				take[EndAwait](r)
				r.step(Woken{})
				if take[Release](r); len(r.read.due) != 0 {
					t.Errorf("due %v, want nothing any more", r.read.due)
				}
			}
		})
	}
}

// TestFull: no more is read than memory allows. Where it stays full because one of several destinations
// is slow, that one's messages are deferred, the latest first, so that others can be read.
func TestFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		c.Dests, c.BatchSize, c.Parallel, c.PublishTimeout, c.LeaseTTL = []Dest{{Name: "a"}, {Name: "b"}}, 1, 1, 40*time.Second, time.Hour
	})
	r.read.weight = EmptySize
	r.own(Lane{0, 1})
	position := int64(0)
	for range 20 {
		c := r.reads()
		var list []Message
		for range c.Limit {
			position++
			m := msg(position, "")
			m.Routes = []string{"a"}
			if position > 39 {
				m.Key = "k"
			}
			list = append(list, m)
		}
		r.step(Claimed{Messages: list, Full: true})
		if r.read.full {
			break
		}
	}
	held := r.Stats().Held
	if none[Claim](r); held < 40 || held > 50 {
		t.Fatalf("%d messages are held, want the memory full", held)
	}
	if next := r.Next(); next != r.at+500*time.Millisecond {
		t.Errorf("Next() = %v, want when the memory has been full for long", next)
	}
	r.pass(500 * time.Millisecond)
	deferred := take[Settle](r).Settlements
	if deferred[0].Message.Key != "k" || deferred[0].Outcome != Wait || deferred[0].Err == nil || deferred[1].Behind != true {
		t.Errorf("deferred: %s, want the key first, as a whole and in order", say(deferred))
	}
	if left := r.dests[0].main.total; left > r.share() {
		t.Errorf("%d messages of the slow one are left, want %d", left, r.share())
	}
	r.reads()
	r.step(Settled{})
	if r.Stats().Held != held-len(deferred) {
		t.Errorf("%d are held", r.Stats().Held)
	}
}

// TestFull_Rests: a relay whose memory is full, and that may not look ahead, waits for what happens next: it
// does not ask to be called at once, again and again.
func TestFull_Rests(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*rig){
		"the lease runs out": func(r *rig) {
			r.pass(5 * time.Second)
			take[Renew](r)
		},
		"it stops":               func(r *rig) { r.step(Stop{}) },
		"too much is parked":     func(r *rig) { r.read.parked = true },
		"it may look ahead soon": func(*rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel, c.Ahead = 1, 1, true })
			r.read.weight = EmptySize
			r.own(Lane{0, 1})
			for position := int64(1); !r.read.full && position < 100; {
				c := r.reads()
				list := make([]Message, c.Limit)
				for i := range list {
					list[i] = msg(position, "")
					position++
				}
				r.step(Claimed{Messages: list, Full: true})
				if position == int64(1+c.Limit) {
					take[ClaimAhead](r)
					r.step(ClaimedAhead{})
				}
			}
			then(r)
			r.pass(200 * time.Millisecond)
			if next := r.Next(); next <= r.at {
				t.Errorf("Next() = %v at %v, and nothing is to be done", next, r.at)
			}
		})
	}
}

// TestRests: deferred messages come back at a limited rate, each tenant's by itself.
func TestRests(t *testing.T) {
	t.Parallel()
	d := newDest(Dest{Rate: 10})
	for i := range 20 {
		if at, want := d.rests("large", time.Second), time.Second+time.Duration(i/5+1)*returnStep; at != want {
			t.Errorf("message %d rests until %v, want %v", i, at, want)
		}
	}
	if at := d.rests("small", time.Second); at != time.Second+returnStep {
		t.Errorf("the first of another tenant rests until %v", at)
	}
	for i := range maxReturns + 1 {
		d.returns[time.Duration(i).String()] = time.Hour
	}
	if d.rests("small", time.Second); len(d.returns) != 1 {
		t.Errorf("%d tenants are remembered", len(d.returns))
	}
}

// TestClaim_Reopens: what was stored while a claim was running holds up its key until the claim has
// ended, which may not have seen it.
func TestClaim_Reopens(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"))
	b := r.sent(1)
	r.reads()
	r.answer(b, notTaken)
	r.stores("1 waits 1s failed 1")
	r.step(Claimed{Messages: []Message{msg(2, "k")}})
	none[Publish](r)
	r.stores("2 waits behind")
	if len(r.lines) != 0 {
		t.Errorf("%d lines are left", len(r.lines))
	}
}

// TestHeldFor: of a waiting row for one destination a claim receives which one.
func TestHeldFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests, c.BatchSize = []Dest{{Name: "a"}, {Name: "b"}, {Name: "c"}}, 2 })
	r.own(Lane{0, 1})
	var list []Message
	for _, d := range []string{"a", "b"} {
		m := msg(1, "k")
		m.Waiting, m.Dest = true, d
		list = append(list, m)
	}
	whole := msg(2, "l")
	whole.Routes = []string{"c"}
	r.claimed(append(list, whole)...)
	b := r.sent(1)
	if c := r.reads(); !slices.Equal(c.Held, []int64{1, 2}) || len(c.HeldFor) != 1 || !slices.Equal(c.HeldFor[1], []string{"a", "b"}) {
		t.Errorf("held %v, %v", c.Held, c.HeldFor)
	}
	r.step(Claimed{})
	r.answer(b)
	r.stores("1 published")
	if c := r.reads(); !slices.Equal(c.HeldFor[1], []string{"b"}) {
		t.Errorf("held for %v, want the other one", c.HeldFor)
	}
}
