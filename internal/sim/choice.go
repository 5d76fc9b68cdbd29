package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// choice is something that may happen next.
type choice struct {
	text  string
	fault bool
	relay int // the one that it changes; -1 for none
	do    func(s *system)
}

type adder func(fault bool, text string, do func(*system))

// choices returns everything that may happen next. Each works on a copy of the system, too: it refers
// to its object by index.
func (s *system) choices() (list []choice) {
	relay := 0
	add := func(fault bool, text string, do func(*system)) {
		if !fault || s.faults > 0 {
			list = append(list, choice{text, fault, relay, do})
		}
	}
	rest := true
	for i, r := range s.relays {
		relay = i
		before := len(list)
		s.ofCalls(i, r, add)
		s.ofRelay(i, r, add)
		if s.alone(r) {
			return list[before:]
		}
		rest = rest && s.waits(r)
	}
	relay = -1
	s.ofStore(add)
	if rest && (s.moves < s.small.moves || len(s.coming)+len(s.store.open) == 0) && (s.now < operatedBy || !s.parks()) {
		add(false, "time passes", (*system).pass)
	}
	return list
}

// alone reports whether nothing that others do changes what a relay may do now, or its result, and
// nothing that it may do now changes what others may do. The order of its steps and theirs makes no
// difference then, and only one is explored: a relay that has everything answered, and waits for
// nothing, comes first.
func (s *system) alone(r *relay) bool {
	if r.gone || r.paused || r.core.Done() || r.awaits && !s.quiet() {
		return false
	}
	for _, c := range r.calls {
		if c.answer == nil || c.at > s.now {
			return false
		}
	}
	return len(r.calls) > 0
}

// quiet reports whether no relay will be woken any more.
func (s *system) quiet() bool { return len(s.coming)+len(s.store.open) == 0 && !s.parks() }

// parks reports whether a dead letter parks what is behind it, so that an operator has something to do.
func (s *system) parks() bool {
	return slices.ContainsFunc(s.store.dead, func(d *row) bool { return d.parks })
}

// ofStore adds what producers and operators may do.
func (s *system) ofStore(add adder) {
	if len(s.coming) > 0 {
		next, rest := s.coming[0], s.coming[1:]
		of := func(r row) bool { return r.key == next.key }
		if !slices.ContainsFunc(s.store.open, func(r *row) bool { return of(*r) }) {
			add(false, "enqueue "+next.id, func(s *system) { s.enqueue(false) })
			if !slices.ContainsFunc(rest, of) {
				add(true, "enqueue "+next.id+", to be committed late", func(s *system) { s.enqueue(true) })
			}
		}
	}
	if len(s.store.open) > 0 {
		add(false, "commit "+s.store.open[0].id, func(s *system) { s.commit(s.store.open[0]) })
	}
	for i, d := range s.store.dead {
		if d.parks {
			add(false, "requeue "+d.id, func(s *system) { s.store.resolve(i, true, s.now); s.wake() })
			add(false, "resolve "+d.id, func(s *system) { s.store.resolve(i, false, s.now); s.wake() })
		}
	}
}

// ofCalls adds what may become of a relay's calls.
func (s *system) ofCalls(i int, r *relay, add adder) {
	for j, c := range r.calls {
		on := func(do func(*system, *relay, *call)) func(*system) {
			return func(s *system) { do(s, s.relays[i], s.relays[i].calls[j]) }
		}
		what := fmt.Sprintf("%s: %s ", r.name, describeCall(c))
		b, sends := c.cmd.(relaycore.Publish)
		switch {
		case c.answer == nil:
			add(false, what+"takes effect", on((*system).effect))
			if r.gone {
				continue
			}
			add(true, what+"fails before it takes effect", on(func(s *system, r *relay, c *call) { c.answer = s.failed(r, c) }))
			if sends {
				s.ofBatch(what, b.Batch, on, add)
			}
		case r.gone || r.paused || c.at > s.now:
		default:
			add(false, what+"is answered", on(func(s *system, r *relay, c *call) { s.answer(r, c, c.answer) }))
			add(true, what+"has taken effect, and its answer is lost", on(func(s *system, r *relay, c *call) { s.answer(r, c, s.failed(r, c)) }))
		}
	}
}

// ofBatch adds what may become of a batch.
func (s *system) ofBatch(what string, b *relaycore.Batch, on func(func(*system, *relay, *call)) func(*system), add adder) {
	answer := func(stored int, result func(i int) relaycore.Result, wait time.Duration) func(*system) {
		return on(func(s *system, _ *relay, c *call) {
			b := c.cmd.(relaycore.Publish).Batch
			results := make([]relaycore.Result, len(b.Messages))
			for i := range b.Messages {
				results[i] = result(i)
				if results[i].Err != nil && results[i].Kind != waybill.Unavailable {
					s.ledger.failures[copyOf(b.Messages[i])]++
				} else if i < stored && (results[i].Err == nil || results[i].Unsure) {
					s.check(s.ledger.store(s.store, b, i, s.now))
				}
			}
			c.answer, c.at = relaycore.Answered{Batch: b, Results: results, Window: time.Minute}, s.now+wait
		})
	}
	same := func(r relaycore.Result) func(int) relaycore.Result {
		return func(int) relaycore.Result { return r }
	}
	for n := 1; n < len(b.Messages); n++ {
		add(true, fmt.Sprint(what, "loses its connection after ", n), answer(n, same(lostUnsure), 0))
	}
	add(true, what+"arrives and is never confirmed", answer(len(b.Messages), same(unsure), b.Limit))
	add(true, what+"finds the broker away", answer(0, same(relaycore.Result{Err: errAway, Kind: waybill.Unavailable}), 0))
	for n := range b.Messages {
		only := func(r relaycore.Result) func(int) relaycore.Result {
			return func(i int) relaycore.Result {
				if i != n {
					return relaycore.Result{}
				}
				return r
			}
		}
		id := rowOf(b.Messages[n]).id
		if n > 0 {
			add(true, what+"has "+id+" refused, and the one before it not answered", answer(len(b.Messages), func(i int) relaycore.Result {
				switch i {
				case n - 1:
					return relaycore.Result{Err: errAway, Kind: waybill.Unavailable}
				case n:
					return failure(waybill.Transient, "")
				}
				return relaycore.Result{}
			}, 0))
		}
		add(true, what+"has "+id+" refused", answer(len(b.Messages), only(failure(waybill.Transient, "")), 0))
		add(true, what+"has "+id+" refused for good", answer(len(b.Messages), only(failure(waybill.Permanent, waybill.ReasonTooLarge)), 0))
	}
}

// ofRelay adds what a relay may do.
func (s *system) ofRelay(i int, r *relay, add adder) {
	switch {
	case r.gone && r.again && (s.now == r.since || s.over(r)):
		add(false, r.name+" is started again", func(s *system) { s.relays[i].again = false; s.begin(r.name + "'") })
	case r.gone:
	case r.core.Done():
		add(false, r.name+" leaves", func(s *system) { s.leave(s.relays[i]) })
	case r.paused && !s.over(r):
	case r.paused:
		add(false, r.name+" goes on", func(s *system) { s.relays[i].paused = false })
	default:
		if r.awaits && s.woken(r) {
			add(false, r.name+" is woken", func(s *system) { s.wakeUp(i) })
		}
		if s.ticks(r) {
			add(false, r.name+" ticks", func(s *system) { s.step(s.relays[i], relaycore.Tick{}) })
		}
		add(true, r.name+" crashes", func(s *system) { s.crash(s.relays[i]) })
		add(true, r.name+" stands still", func(s *system) { s.relays[i].paused, s.relays[i].since = true, s.now })
		if s.small.stops {
			add(true, r.name+" stops", func(s *system) { s.step(s.relays[i], relaycore.Stop{}) })
		}
	}
}

// crash ends a relay. Its calls and messages that have not arrived may arrive later, or never.
func (s *system) crash(r *relay) {
	r.gone, r.again, r.core, r.since = true, true, nil, s.now
	r.calls = slices.DeleteFunc(r.calls, func(c *call) bool { _, claims := c.cmd.(relaycore.Claim); return claims || c.answer != nil })
}

func (s *system) answer(r *relay, c *call, e relaycore.Event) {
	r.calls = slices.DeleteFunc(r.calls, func(o *call) bool { return o == c })
	s.step(r, e)
}

// enqueue enqueues the next message.
func (s *system) enqueue(late bool) {
	made := s.store.begin(s.coming[0])
	if s.coming = s.coming[1:]; !late {
		s.commit(made)
	}
}

func (s *system) commit(r *row) {
	s.store.commit(r)
	s.wake()
}

// wake notifies relays of a commit.
func (s *system) wake() {
	for _, r := range s.relays {
		s.news[r.at] = !r.gone
	}
}

// pass lets time pass until something happens by itself.
func (s *system) pass() {
	next := never
	for _, r := range s.relays {
		next = min(next, s.next(r))
	}
	s.now = next
	if s.moves++; len(s.coming)+len(s.store.open) == 0 {
		s.moves = 0
	}
	if s.now > drainedBy {
		s.check(fmt.Errorf("not drained after %v", s.now))
	}
}

func describeCall(c *call) string {
	switch cmd := c.cmd.(type) {
	case relaycore.Publish:
		return fmt.Sprintf("the batch %v", ids(cmd.Batch))
	case relaycore.Settle:
		var list []string
		for _, st := range cmd.Settlements {
			list = append(list, fmt.Sprint(copyOf(st.Message), ":", st.Outcome))
		}
		return fmt.Sprintf("the settlement %v", list)
	}
	return fmt.Sprintf("%T", c.cmd)[len("relaycore."):]
}
