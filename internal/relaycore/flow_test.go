package relaycore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// TestClaimed: where a claimed message goes.
func TestClaimed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Message)
		want   string // "" if it is sent
	}{
		{"for one destination", func(*Message) {}, ""},
		{"malformed", func(m *Message) { m.Malformed = errTest }, "1 dead malformed failed 1"},
		{"expired", func(m *Message) { m.Expired = true }, "1 dead expired failed 1"},
		{"before its time", func(m *Message) { m.DelayFor = time.Hour }, "1 scheduled"},
		{"for nobody", func(m *Message) { m.Routes = nil }, "1 dead unroutable failed 1"},
		{"for two", func(m *Message) { m.Routes = []string{"a", "b"} }, "1 fans out [a b]"},
		{"waited", func(m *Message) { m.Waiting, m.Dest = true, "b" }, ""},
		{"waited for a destination that is gone", func(m *Message) { m.Waiting, m.Dest = true, "gone" }, "1 waits 1m0s"},
		{"its destination cannot be asked", func(m *Message) { m.RouteErr = errTest }, "1 waits 1s failed 1"},
		{"behind one that waits", func(m *Message) { m.Blocked = true }, "1 waits behind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}} })
			r.own(Lane{0, 1})
			m := msg(1, "k")
			m.Routes = []string{"a"}
			tt.change(&m)
			r.claimed(m)
			if tt.want == "" {
				r.answer(r.sent(1))
				tt.want = "1 published"
			}
			r.stores(tt.want)
			if r.held != (held{}) || len(r.lanesHeld())+len(r.lines) != 0 {
				t.Errorf("after it is stored something is held: %+v, %d lines", r.held, len(r.lines))
			}
		})
	}
}

// TestKey: what becomes of the messages of a key when the first one is refused.
func TestKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Config)
		first  Result
		want   string
	}{
		{"waits, and the rest behind it", func(*Config) {}, notTaken, "1 waits 1s failed 1, 2 waits behind, 3 waits behind"},
		{"skipped", func(c *Config) { c.Order = Skip }, notTaken, "1 waits 1s alone failed 1"},
		{"dead", func(*Config) {}, Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonTooLarge}, "1 dead too_large failed 1"},
		{"dead and parked", func(c *Config) { c.Order = Park }, Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonTooLarge}, "1 dead too_large failed 1, 2 waits behind, 3 waits behind"},
		{"failed for good", func(c *Config) { c.NoDeadLetters = true }, Result{Err: errTest, Kind: waybill.Permanent, Reason: waybill.ReasonTooLarge}, "1 failed too_large failed 1"},
		{"followed", func(*Config) {}, Result{Followers: []string{"f"}}, "1 published [f]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.Strict, c.Followers = true, []Dest{{Name: "f"}}; tt.change(c) })
			r.own(Lane{0, 1})
			r.claimed(msg(1, "k"), msg(2, "k"), msg(3, "k"))
			b := r.sent(1)
			r.answer(b, tt.first)
			behind := strings.Contains(tt.want, "behind")
			if goes := tt.first.Err == nil || r.cfg.Order == Skip; goes {
				r.sent(2)
			} else {
				none[Publish](r) // before the outcome is stored
			}
			first, rest, _ := strings.Cut(tt.want, ", ")
			if !behind {
				r.stores(first)
			} else {
				r.stores(tt.want)
				none[Publish](r)
			}
			if rest == "" && (tt.first.Err == nil || r.cfg.Order == Skip) {
				return
			}
			if !behind {
				r.sent(2)
			}
		})
	}
}

// TestKey_Pipelined: messages of a key go together; one that was accepted after a refused one is
// reported, and what comes later waits behind that.
func TestKey_Pipelined(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize = 3 })
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, "k"), msg(3, "k"), msg(4, "k"), msg(5, "l"))
	b := r.sent(1, 2, 3)
	r.sent(5)
	r.answer(b, accepted, notTaken, accepted)
	if n, rep := r.reported(Overtaken); n != 1 || !slices.Equal(positions(rep.Messages), []int64{3}) {
		t.Errorf("reported %+v, want that 3 has passed 2", rep)
	}
	r.stores("1 published, 2 waits 1s failed 1, 4 waits behind, 3 published")
	if n, rep := r.reported(Retried); n != 1 || rep.Settlement.Message.Position != 2 {
		t.Errorf("%d reports of retries, %+v", n, rep)
	}
	none[Publish](r)
}

// TestKey_NotOvertaken: what is accepted behind one that has become a dead letter has its turn.
func TestKey_NotOvertaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"), msg(2, "k"))
	r.answer(r.sent(1, 2), Result{Err: errTest, Kind: waybill.Permanent}, accepted)
	if n, rep := r.reported(Overtaken); n != 0 {
		t.Errorf("reported %+v, want nothing", rep)
	}
}

// TestClaimed_Took: a claim's report says how long it has taken.
func TestClaimed_Took(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LeaseTTL = time.Hour })
	r.pass(time.Minute)
	r.own(Lane{0, 1})
	r.reads()
	r.pass(2 * time.Second)
	r.step(Claimed{Messages: []Message{msg(1, "")}})
	if n, rep := r.reported(Claims); n != 1 || rep.Took != 2*time.Second {
		t.Errorf("%d reports, %+v, want one of 2s", n, rep)
	}
}

// TestLate_Pauses: a batch that is not answered pauses its topics if the destination has accepted something
// meanwhile, else the destination.
func TestLate_Pauses(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		r := newRig(t, func(c *Config) { c.Dests, c.LeaseTTL = []Dest{{Late: true}}, time.Hour })
		r.own(Lane{0, 1})
		r.claimed(to("silent", msg(1, "")))
		r.sent(1)
		r.claimed(to("fine", msg(2, "")))
		if b := r.sent(2); answers {
			r.answer(b)
		}
		r.pass(r.cfg.PublishTimeout)
		r.claimed(to("new", msg(3, "")))
		if answers {
			r.sent(3)
		} else {
			none[Publish](r)
		}
	}
}

// TestExpires: one that expires while it is held is not sent.
func TestExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Parallel, c.BatchSize = 1, 3 })
	r.own(Lane{0, 1})
	soon := msg(4, "k")
	soon.ExpiresIn = time.Millisecond
	r.claimed(msg(1, "k"), msg(2, "k"), msg(3, ""), soon, msg(5, "k"))
	b := r.sent(1, 2, 3)
	r.pass(time.Second / 2)
	r.answer(b)
	r.stores("1 published, 2 published, 3 published, 4 dead expired failed 1")
	if n, _ := r.reported(Dead); n != 1 {
		t.Errorf("%d reports of dead letters, want 1", n)
	}
	r.answer(r.sent(5))
}

// TestExpires_NotYet: one that has some time left is sent, and sent again after a failure, until it has none.
func TestExpires_NotYet(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LeaseTTL = time.Hour })
	r.own(Lane{0, 1})
	m := msg(1, "k")
	m.ExpiresIn = time.Second
	r.claimed(m)
	b := r.sent(1)
	r.pass(time.Second / 2)
	r.answer(b, unavailable)
	r.pass(time.Second/2 - 1)
	b = r.sent(1)
	r.answer(b, unavailable)
	r.pass(5 * time.Second)
	none[Publish](r)
	r.stores("1 dead expired failed 1")
}

// TestExpires_InTheMiddle: one of a key that has expired does not go in a batch, and what follows it
// waits until that is stored.
func TestExpires_InTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Parallel = 1 })
	r.own(Lane{0, 1})
	soon := msg(3, "k")
	soon.ExpiresIn = time.Millisecond
	r.claimed(to("first", msg(1, "")))
	b := r.sent(1)
	r.reads()
	r.step(Claimed{Messages: []Message{msg(2, "k"), soon, msg(4, "k")}})
	r.pass(time.Millisecond)
	r.answer(b)
	r.stores("1 published")
	r.answer(r.sent(2))
	r.stores("2 published, 3 dead expired failed 1")
	r.sent(4)
}

// TestPaused: a destination that does not answer is paused for longer and longer, then tried with one
// batch; it goes on when it answers.
func TestPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.BatchSize = 1 })
	r.own(Lane{0, 1})
	r.claimed(msg(1, ""), msg(2, ""), msg(3, ""))
	one, two := r.sent(1), r.sent(2)
	r.rests()
	r.answer(one, unavailable)
	r.answer(two, unavailable)
	if names := r.PausedDests(); len(names) != 1 {
		t.Errorf("PausedDests() = %v", names)
	}
	for _, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
		if _, rep := r.reported(Paused); rep.Delay != pause || rep.Topic != "" {
			t.Errorf("reported %+v, want a pause of %v", rep, pause)
		}
		if next := r.Next(); next != r.at+pause {
			t.Errorf("Next() = %v, want the end of the pause, %v", next, r.at+pause)
		}
		r.pass(pause - 1)
		none[Publish](r)
		r.pass(1)
		one = r.sent(1)
		none[Publish](r)
		r.answer(one, unavailable)
	}
	r.pass(400 * time.Millisecond)
	r.answer(r.sent(1))
	if n, _ := r.reported(Resumed); n != 1 || len(r.PausedDests()) != 0 {
		t.Errorf("%d reports that it goes on", n)
	}
	r.sent(2)
	r.sent(3)
	r.stores("1 published")
}

// TestPaused_Several: where there are other destinations, what a paused one holds up is deferred, in
// order, and comes back when the pause has ended; what is due for it meanwhile stays where it is.
func TestPaused_Several(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests, c.Parallel, c.BatchSize = []Dest{{Name: "a"}, {Name: "b"}}, 1, 1 })
	r.own(Lane{0, 1})
	var list []Message
	for p, key := range []string{"", "k", "k", "", ""} {
		m := msg(int64(p+1), key)
		m.Routes = []string{"a"}
		list = append(list, m)
	}
	list[4].Routes = []string{"b"}
	r.claimed(list...)
	b := r.sent(1)
	r.sent(5)
	r.answer(b, unavailable)
	r.stores("2 waits 1.5s, 3 waits behind, 1 waits 1.5s, 4 waits 1.5s")
	r.pass(time.Millisecond)
	r.read.news = true
	r.step(Tick{})
	if c := r.reads(); !slices.Equal(c.Paused, []string{"a"}) {
		t.Errorf("paused %v, want a", c.Paused)
	}
}

// TestTopic: a topic that is not answered while others are gets a queue of its own, which holds up
// nobody, and comes back when it is answered quickly.
func TestTopic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		result Result
	}{{"unavailable", unavailable}, {"reaches nobody", nobody}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.own(Lane{0, 1})
			r.claimed(to("bad", msg(1, "")), to("good", msg(2, "")), to("bad", msg(3, "k")))
			r.answer(r.sent(1, 2, 3), tt.result, accepted, unavailable)
			if _, rep := r.reported(Paused); rep.Topic != "bad" || rep.Delay != 100*time.Millisecond {
				t.Errorf("reported %+v, want a pause of the bad topic", rep)
			}
			r.step(Tick{})
			if len(r.PausedDests()) != 0 || len(r.dests[0].queues) != 2 {
				t.Errorf("paused %v, isolated %d, want the topic only", r.PausedDests(), len(r.dests[0].queues)-1)
			}
			r.pass(100 * time.Millisecond)
			b := take[Publish](r).Batch
			r.answer(b, slices.Repeat([]Result{unavailable}, len(b.Messages))...) // again
			if n, rep := r.reported(Paused); n < 2 || rep.Topic != "bad" || rep.Delay != 200*time.Millisecond {
				t.Errorf("reported %+v, want another pause of the topic", rep)
			}
			r.pass(200 * time.Millisecond)
			r.answer(take[Publish](r).Batch)
			if len(r.dests[0].queues) != 1 {
				t.Error("the topic is still isolated")
			}
		})
	}
}

// TestTopic_AnsweredSlowly: a topic that is answered, but slowly, keeps its queue.
func TestTopic_AnsweredSlowly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.isolate(r.dests[0], "slow")
	for i, wait := range []time.Duration{time.Second, time.Second - 1} {
		r.reads()
		r.step(Claimed{Messages: []Message{to("slow", msg(int64(1+i), ""))}})
		b := r.sent(int64(1 + i))
		r.pass(wait)
		r.answer(b)
		if isolated := r.dests[0].queueFor("slow").isolated(); isolated != (wait == time.Second) {
			t.Errorf("answered after %v: isolated %v", wait, isolated)
		}
	}
}

// TestSlow: others pass a batch that is not answered for a while. One of several topics is abandoned so
// that the messages of those that are well can go.
func TestSlow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Parallel, c.BatchSize = 1, 2 })
	r.own(Lane{0, 1})
	r.claimed(to("s", msg(1, "")), to("u", msg(2, "")), to("v", msg(3, "")))
	b := r.sent(1, 2)
	none[Publish](r)
	r.rests()
	if next := r.Next(); next != time.Second {
		t.Errorf("Next() = %v, want when the batch is slow", next)
	}
	if n := r.asideMessages(); n != 0 {
		t.Errorf("%d messages need not be waited for before the batch is slow", n)
	}
	r.pass(time.Second - r.at)
	r.answer(r.sent(3))
	if n := r.asideMessages(); n != 2 {
		t.Errorf("%d messages need not be waited for, want those of the slow batch", n)
	}
	none[Cut](r)
	r.pass(time.Second)
	if cut := take[Cut](r); cut.Batch != b {
		t.Error("another batch is cut")
	}
	r.pass(time.Millisecond)
	none[Cut](r) // once
	r.answer(b, Result{Err: errTest, Kind: waybill.Unavailable, Unsure: true}, accepted)
	if q := r.dests[0].queueFor("s"); !q.isolated() || q.paused(r.at) == 0 {
		t.Error("the topic that was not answered is not paused")
	}
}

// TestSlow_OneTopic: a slow batch of one topic holds up no other, and is waited for until the timeout.
func TestSlow_OneTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.claimed(msg(1, ""), msg(2, ""))
	r.sent(1, 2)
	r.pass(time.Second - r.at)
	r.pass(2 * time.Second)
	none[Cut](r)
}

// TestLate: where late confirms count, what is not answered in time is paused and still waited for,
// until the lease ends, or it is shown that only this batch is not answered.
func TestLate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		renew bool   // the lease
		other bool   // something that was sent later is confirmed
		topic string // of the second message
		cut   bool
	}{
		{"waits", true, false, "u", false}, {"the lease ends", false, false, "u", true}, {"others are confirmed", true, true, "u", true},
		{"others are confirmed, and it has one topic", true, true, "s", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) {
				c.Dests = []Dest{{Late: true}}
				c.Parallel, c.BatchSize, c.LeaseTTL = 1, 2, 20*time.Second
			})
			r.own(Lane{0, 1})
			r.claimed(to("s", msg(1, "")), to(tt.topic, msg(2, "")))
			b := r.sent(1, 2)
			if b.Limit != lateLimit*4*time.Second {
				t.Errorf("limit %v", b.Limit)
			}
			lease := func() {
				take[Renew](r)
				if tt.renew {
					r.step(Leased{Lanes: []Lane{{0, 1}}, Share: 1, Total: 1})
				} else {
					r.step(LeaseFailed{Err: errTest})
				}
			}
			r.pass(3 * time.Second)
			lease()
			r.reads()
			r.step(Claimed{Messages: []Message{to("v", msg(3, ""))}})
			later := r.sent(3)
			r.pass(time.Second)
			if _, rep := r.reported(Paused); rep.Err == nil || !strings.Contains(rep.Err.Error(), "no answer within 4s") {
				t.Errorf("reported %+v, want that it is late", rep)
			}
			if tt.other {
				r.answer(later)
			} else if !tt.renew {
				r.pass(20 * time.Second)
			}
			r.pass(time.Second)
			if tt.cut {
				take[Cut](r)
			} else {
				none[Cut](r)
				if tt.other {
					r.stores("3 published")
				}
				r.answer(b)
				r.stores("1 published, 2 published")
			}
		})
	}
}

// TestLate_NewEpoch: what was sent under a lease that was lost is not waited for once it is late: the lane,
// which has come back under a new epoch, is not read before.
func TestLate_NewEpoch(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Late: true}} })
	r.own(Lane{0, 1})
	r.claimed(msg(1, "k"))
	r.sent(1)
	r.pass(2*time.Second - r.at) // the next renewal
	r.renewed(LeaseFailed{Lost: true, Err: errTest})
	r.renewed(Leased{Lanes: []Lane{{0, 2}}, Share: 1, Total: 1})
	none[Cut](r)
	r.pass(4*time.Second - r.at)
	take[Cut](r)
}

// TestPoison: of messages under which connections end, each is sent alone, when another one has shown
// that the destination is well; the one that ends it twice is a dead letter.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Parallel = 2 })
	r.own(Lane{0, 1})
	r.claimed(to("t", msg(1, "")), to("t", msg(2, "k")), to("t", msg(3, "k")))
	r.answer(r.sent(1, 2, 3), lost, lost, lost)
	r.pass(100 * time.Millisecond)
	r.answer(r.sent(1, 2, 3), lost, lost, lost)
	fresh := msg(4, "n")
	r.pass(200 * time.Millisecond)
	alone := r.sent(1) // the first suspect, nothing else is known
	if !alone.Alone || !alone.Messages[0].Resent {
		t.Error("the suspect is not sent alone, or not as sent before")
	}
	r.reads()
	r.step(Claimed{Messages: []Message{fresh}})
	none[Publish](r) // while the suspect is alone
	r.answer(alone, lost)
	r.pass(400 * time.Millisecond)
	r.answer(r.sent(4)) // shows that the destination is well
	for range 20 {
		if len(r.settler.running) > 0 {
			take[Settle](r)
			r.step(Settled{})
		}
		for i, cmd := range r.pending {
			if p, ok := cmd.(Publish); ok {
				r.pending = slices.Delete(r.pending, i, i+1)
				if p.Batch.Messages[0].Position == 2 {
					r.answer(p.Batch, lost)
				} else {
					r.answer(p.Batch)
				}
				break
			}
		}
		r.pass(200 * time.Millisecond)
		if r.reads(); true {
			r.step(Claimed{Messages: []Message{msg(100+int64(r.at/time.Millisecond), "")}})
		}
		if n, rep := r.reported(Dead); n == 1 {
			if rep.Settlement.Message.Position != 2 || rep.Settlement.Reason != waybill.ReasonPoison {
				t.Errorf("dead: %+v", rep.Settlement)
			}
			return
		}
	}
	t.Error("the poison message was not found")
}

// TestCopies: one that may have arrived and is sent again later than the broker remembers is reported.
func TestCopies(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LeaseTTL = time.Hour })
	r.own(Lane{0, 1})
	r.claimed(msg(1, ""))
	r.answer(r.sent(1), Result{Err: errTest, Kind: waybill.Unavailable, Unsure: true})
	r.pass(2 * time.Minute)
	b := r.sent(1)
	if !b.Messages[0].Resent {
		t.Error("it does not say that it is sent again")
	}
	r.answer(b)
	if n, rep := r.reported(DedupExpired); n != 1 || rep.Delay != 2*time.Minute {
		t.Errorf("reported %+v", rep)
	}
	take[Settle](r)
	r.step(Settled{})
	if len(r.dests[0].past) != 0 {
		t.Error("what was sent is still remembered")
	}
}

// TestRate: a destination gets what its rate allows, in portions.
func TestRate(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Rate: 100}} })
	r.own(Lane{0, 1})
	var list []Message
	for p := range int64(40) {
		list = append(list, msg(p+1, ""))
	}
	r.claimed(list...)
	none[Publish](r)
	r.rests()
	sent := 0
	for range 30 {
		next := r.Next()
		if next <= r.at || next > r.at+60*time.Millisecond {
			t.Fatalf("Next() = %v at %v, want when the rate allows more", next, r.at)
		}
		r.pass(next - r.at)
		b := take[Publish](r).Batch
		sent += len(b.Messages)
		r.answer(b)
		if most := 100*r.at.Seconds() + 1; float64(sent) > most || float64(sent) < most-8 {
			t.Fatalf("%d sent in %v", sent, r.at)
		}
		if sent >= 30 {
			return
		}
	}
}

// TestPace: messages may be sent when pace says so, and not long before.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.1, 1, 7, 100, 12345} {
		p := pace{rate: rate}
		next := p.next(0)
		if early := next - 2*time.Millisecond; p.next(early) <= early {
			t.Errorf("rate %v: some may be sent at %v, and next() = %v", rate, early, next)
		}
		if at := p.next(next); at != next || p.allowed(1) != 1 {
			t.Errorf("rate %v: nothing may be sent at %v, next() = %v", rate, next, at)
		}
	}
}

// TestReleased_Full: a release that has moved as many as it may is made again at once.
func TestReleased_Full(t *testing.T) {
	t.Parallel()
	for count, again := range map[int]bool{9: false, 10: true} {
		r := newRig(t, nil)
		r.own(Lane{0, 1})
		take[Release](r)
		r.step(Released{Count: count})
		take[Claim](r)
		r.step(Claimed{})
		r.pass(claimInterval)
		if got := slices.ContainsFunc(r.pending, func(cmd Command) bool { _, is := cmd.(Release); return is }); got != again {
			t.Errorf("%d were released: another release %v, want %v", count, got, again)
		}
	}
}

// TestReadFails: a claim that fails is made again, of all that it was to read again, for fewer bytes.
func TestReadFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	take[Release](r)
	r.step(Released{Err: errTest})
	if _, rep := r.reported(ReleaseFails); !errors.Is(rep.Err, errTest) {
		t.Errorf("reported %+v", rep)
	}
	c := take[Claim](r)
	r.step(ClaimFailed{Err: errTest})
	if _, rep := r.reported(LoopFails); rep.Topic != "claim" {
		t.Errorf("reported %+v", rep)
	}
	if next := r.Next(); next != retryBase {
		t.Errorf("Next() = %v, want %v", next, retryBase)
	}
	r.pass(retryBase)
	if again := r.reads(); !slices.Equal(again.Again, c.Again) || again.Limit >= c.Limit && c.Limit > 1 {
		t.Errorf("claim %+v after %+v, want the same lanes from the beginning, and less", again, c)
	}
	r.step(Claimed{})
	take[Await](r)
	r.step(Woken{Err: errTest})
	if n, _ := r.reported(LoopFails); n != 2 {
		t.Errorf("%d reports of failures, want 2", n)
	}
}

// TestStop_Waiting: a relay that waits for something to do ends at once.
func TestStop_Waiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.claimed()
	r.rests()
	r.step(Stop{})
	take[EndAwait](r)
	r.step(Woken{})
	if !r.Done() {
		t.Error("Done() = false with nothing in flight")
	}
	none[Claim](r)
}

// TestReadsAgain: from time to time every lane is read from its beginning, whatever the store concludes.
func TestReadsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LeaseTTL, c.PollInterval = time.Hour, time.Hour })
	r.own(Lane{0, 1}, Lane{1, 1})
	r.claimed() // from the beginning, since the lanes are new
	r.read.news = true
	if c := r.reads(); c.Again != nil {
		t.Errorf("lanes %v are read from the beginning at once", c.Again)
	}
	r.step(Claimed{})
	r.rests()
	r.pass(againInterval - r.at)
	r.step(Woken{})
	if c := r.reads(); !slices.Equal(c.Again, []int{0, 1}) {
		t.Errorf("lanes %v are read from the beginning, want all", c.Again)
	}
}

// TestFanout_Closes: while a message is being given a row for each destination, what follows it in its key
// is not sent to any of them.
func TestFanout_Closes(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}} })
	r.own(Lane{0, 1})
	first, second := msg(1, "k"), msg(2, "k")
	first.Routes = []string{"a", "b"}
	second.Waiting, second.Dest, second.Routes = true, "b", nil
	r.claimed(first, second)
	none[Publish](r)
}

// TestFanout_KeptBack: a message for several destinations is given its rows only when an earlier one of its
// key, which goes to one of them, has been answered: whoever took the lane over would find those rows due, and
// the earlier message behind them.
func TestFanout_KeptBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		waiting bool
		answer  Result
		want    string
	}{
		"accepted":      {answer: accepted, want: "2 fans out [a b], 3 waits behind, 1 published"},
		"refused":       {answer: notTaken, want: "2 fans out [a b], 3 waits behind, 1 waits 1s failed 1"},
		"not answered":  {answer: unavailable, want: "2 fans out [a b], 3 waits behind, 1 waits behind"},
		"it has waited": {waiting: true, want: "2 fans out [a b], 3 waits behind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}} })
			r.own(Lane{0, 1})
			first, second, third := msg(1, "k"), msg(2, "k"), msg(3, "k")
			first.Routes, second.Routes, third.Routes = []string{"b"}, []string{"a", "b"}, []string{"b"}
			if test.waiting {
				first.Waiting, first.Dest = true, "b"
			}
			r.claimed(first)
			b := r.sent(1)
			r.reads()
			r.step(Claimed{Messages: []Message{second, third}})
			if test.waiting {
				r.stores(test.want)
				return
			}
			none[Settle](r)
			if next := r.Next(); next <= r.now {
				t.Errorf("Next() = %v at %v: there is nothing to do before the answer", next, r.now)
			}
			r.answer(b, test.answer)
			r.stores(test.want)
		})
	}
}

// TestFanout_Requeued: a message that died before it was routed, and was requeued, is routed now; one that still
// matches no destination is a dead letter again.
func TestFanout_Requeued(t *testing.T) {
	t.Parallel()
	for want, routes := range map[string][]string{
		"1 fans out [a]": {"a"}, "1 fans out [a b]": {"a", "b"}, "1 dead unroutable failed 1": nil,
	} {
		r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}} })
		r.own(Lane{0, 1})
		m := msg(1, "k")
		m.Waiting, m.Routes = true, routes
		r.claimed(m)
		r.stores(want)
	}
}

// TestFanout_KeptBackLonger: that another message of the key is being settled meanwhile changes nothing.
func TestFanout_KeptBackLonger(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests = []Dest{{Name: "a"}, {Name: "b"}} })
	r.own(Lane{0, 1})
	first, second, third := msg(1, "k"), msg(2, "k"), msg(3, "k")
	first.Routes, second.Routes, third.Routes = []string{"a"}, []string{"b"}, []string{"a", "b"}
	r.claimed(first, second)
	atA, atB := r.sent(1), r.sent(2)
	r.reads()
	r.answer(atB)
	take[Settle](r)
	r.step(Claimed{Messages: []Message{third}})
	r.step(Settled{})
	none[Settle](r)
	r.answer(atA, notTaken)
	r.stores("3 fans out [a b], 1 waits 1s failed 1")
}

// TestBlocked_Elsewhere: a message whose key is blocked at another destination, but has an earlier message in
// memory at its own that never waited, follows that: in the store it would be due before it.
func TestBlocked_Elsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before  []Message
		waiting bool
		want    string
	}{
		"behind one in flight":          {want: "2 waits 1s failed 1, 3 waits behind"},
		"behind one that is to be sent": {before: []Message{msg(1, "other")}, want: "2 waits 1s failed 1, 3 waits behind"},
		"behind one that has waited":    {waiting: true, want: "3 waits behind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.BatchSize, c.Parallel = 1, 1 })
			r.own(Lane{0, 1})
			first, second := msg(2, "k"), msg(3, "k")
			first.Waiting, second.Blocked = test.waiting, true
			r.claimed(append(test.before, first, second)...)
			if len(test.before) > 0 {
				r.answer(r.sent(1))
				r.stores("1 published")
			}
			b := r.sent(2)
			if test.waiting {
				r.stores(test.want)
				return
			}
			none[Settle](r)
			r.answer(b, notTaken)
			r.stores(test.want)
		})
	}
}

// TestSuspects_BehindExpired: a suspect that comes next because the message before it has expired is sent with no
// others.
func TestSuspects_BehindExpired(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Dests[0].Rate = 100 })
	r.own(Lane{0, 1})
	expires := msg(1, "")
	expires.ExpiresIn = time.Millisecond
	suspect := msg(2, "a")
	r.dests[0].pastOf(&suspect).inBatch = suspectLosses
	r.claimed(expires, suspect, msg(3, "b"))
	none[Publish](r)
	r.pass(time.Second)
	r.answer(r.sent(3)) // it shows that the destination is well
	r.pass(time.Second)
	if b := r.sent(2); !b.Alone {
		t.Error("the suspect is not sent alone")
	}
}

// TestSuspects_NobodyElse: while a suspect waits for what is in flight, nothing else is sent to its destination, from
// other queues neither.
func TestSuspects_NobodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1})
	r.isolate(r.dests[0], "other")
	r.claimed(to("other", msg(1, "")))
	first := r.sent(1)
	suspect := msg(2, "a")
	r.dests[0].pastOf(&suspect).inBatch = suspectLosses
	r.reads()
	r.step(Claimed{Messages: []Message{suspect, to("other", msg(3, ""))}})
	none[Publish](r)
	r.answer(first)
	if b := r.sent(2); !b.Alone {
		t.Error("the suspect is not sent alone")
	}
	none[Publish](r)
}

// TestClaimed_AnyOrder: messages without a key go by position, however a store returns them.
func TestClaimed_AnyOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.own(Lane{0, 1}, Lane{1, 1})
	other := msg(1, "")
	other.Lane = Lane{1, 1}
	r.claimed(msg(2, ""), msg(3, ""), other)
	r.sent(1, 2, 3)
}

// TestLearn_Window: a copy is one that the broker may have taken for new only if the first attempt was longer ago than the
// broker remembers.
func TestLearn_Window(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	d, m := r.dests[0], msg(1, "")
	p := d.pastOf(&m)
	p.unsure, p.since = true, 0
	for at, want := range map[Time]time.Duration{time.Minute: 0, time.Minute + 1: time.Minute + 1} {
		if _, copied := d.learn(&Batch{}, &m, accepted, at, time.Minute); copied != want {
			t.Errorf("accepted %v after the first attempt: %v late, want %v", at, copied, want)
		}
	}
}
