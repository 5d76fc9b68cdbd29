package main

import (
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// broker is a model of a broker: it stores what is sent to it in order, confirms after a while, loses
// connections, refuses messages, and does not answer for a slow topic.
type broker struct {
	w         *world
	away      bool
	slowTopic string // it is not answered
	poison    string // the message that ends connections, while there are faults
	ledger    *ledger
	order     []string                  // messages, as they were stored
	known     map[string]relaycore.Time // when what is recognised as a copy was stored, by life
	consumers []*consumer
}

func newBroker(w *world) *broker {
	b := &broker{w: w, ledger: newLedger(&w.cfg), known: make(map[string]relaycore.Time)}
	if w.plan.Readers > 0 {
		for _, d := range w.plan.all() {
			b.consumers = append(b.consumers, newConsumer(w, d))
		}
	}
	return b
}

// consumer returns the consumer of a destination, nil if it has none.
func (b *broker) consumer(dest string) *consumer {
	for _, c := range b.consumers {
		if c.dest == dest {
			return c
		}
	}
	return nil
}

// fail makes the broker unavailable and ends every connection to it.
func (b *broker) fail() {
	b.away = true
	b.w.say("the broker is away")
	for _, c := range b.consumers {
		for _, r := range c.readers {
			c.cut(r)
		}
	}
}

// heal ends all faults except the poison message.
func (b *broker) heal() {
	b.away, b.slowTopic = false, ""
	b.w.say("the broker is well")
	for _, c := range b.consumers {
		c.deliver()
	}
}

// send takes a batch. Its messages are stored one after the other some time later, and confirmed later
// still.
func (b *broker) send(n *node, batch *relaycore.Batch) {
	w := b.w
	w.sends++
	results := make([]relaycore.Result, len(batch.Messages))
	done := false
	answer := func() {
		if !done {
			done = true
			delete(n.flights, batch)
			n.answered(relaycore.Answered{Batch: batch, Results: results, Window: b.window()})
		}
	}
	taken, late := false, true
	silent := func() { // what is not answered when the wait ends may have arrived, or may yet arrive
		for i := range results {
			if results[i].Err == nil && (late || !taken) {
				results[i] = unsure
			}
		}
		answer()
	}
	away := func() bool { return b.away || n.cutOff && !w.calm }
	n.flights[batch] = func() { w.after(0, silent) }
	w.after(w.latency(30*time.Millisecond), func() {
		if n.gone && w.chance(0.5) {
			return
		}
		if done {
			b.take(batch, make([]relaycore.Result, len(results)), away())
			return
		}
		slow := b.take(batch, results, away())
		taken = true
		wait := w.latency(50 * time.Millisecond)
		if w.chance(w.plan.Faults / 4) {
			wait = w.between(0, 10*time.Second) // confirmed late
		}
		late = wait > batch.Limit
		if slow || late {
			w.after(batch.Limit, silent)
			return
		}
		late = true // until the confirm arrives
		w.after(wait, func() {
			late = false
			answer()
		})
	})
}

// unsure is the result of a message that was not answered.
var unsure = relaycore.Result{Err: errAway, Kind: waybill.Unavailable, Unsure: true}

// take stores the messages of a batch in order, until the connection is lost; none if the broker is
// unavailable.
func (b *broker) take(batch *relaycore.Batch, results []relaycore.Result, away bool) (slow bool) {
	w, lost := b.w, away
	for i, m := range batch.Messages {
		id := rowOf(m).id
		if !lost && (id == b.poison && !w.calm || w.chance(w.plan.Faults/20)) {
			lost = true
			w.say("the connection is lost at %s", id)
			for j := range batch.Messages[:i] { // none of the batch is confirmed
				results[j] = relaycore.Result{Err: errAway, Kind: waybill.Unavailable, Lost: true, Unsure: true}
			}
		}
		name := copyOf(m)
		switch {
		case lost:
			results[i] = relaycore.Result{Err: errAway, Kind: waybill.Unavailable, Lost: true, Unsure: true}
			if away {
				results[i] = relaycore.Result{Err: errAway, Kind: waybill.Unavailable}
			}
		case m.Topic == b.slowTopic:
			slow = true
			results[i] = unsure
			if w.chance(0.5) {
				b.accept(batch, i)
			}
		case b.refuses(m, &results[i]):
		default:
			results[i] = b.accept(batch, i)
		}
		if results[i].Lost {
			b.ledger.failures[name]++ // it may prove to be poison
		}
	}
	return slow
}

// refuses reports whether the broker refuses a message.
func (b *broker) refuses(m *relaycore.Message, r *relaycore.Result) bool {
	w := b.w
	rare, silent := w.plan.Faults/20, w.plan.Faults/20
	if w.plan.Rough {
		rare, silent = 0.04, 0.3
	}
	c := b.consumer(m.Dest)
	switch {
	case w.chance(4 * rare):
		*r = failure(waybill.Transient, "")
	case w.chance(rare):
		*r = failure(waybill.Permanent, waybill.ReasonTooLarge)
	case w.chance(rare):
		*r = failure(waybill.Permanent, waybill.ReasonUnroutable)
	case w.chance(rare):
		*r = failure(waybill.Conflict, "")
	case w.chance(silent): // it is not answered, and the others are
		*r = failure(waybill.Unavailable, "")
	case w.chance(rare), c != nil && c.full(): // its queue is full
		*r = failure(waybill.Unavailable, "")
		r.After = w.between(0, 5*time.Second)
	default:
		return false
	}
	if counts(*r) {
		b.ledger.failures[copyOf(m)]++
		w.say("%s is refused: %s %s", copyOf(m), r.Kind, r.Reason)
	}
	return true
}

// window is for how long copies are recognised.
func (b *broker) window() time.Duration {
	if b.w.plan.Dedup {
		return time.Minute
	}
	return 0
}

// accept stores a message, unless it is recognised as a copy. One that is marked as sent for the first
// time and is recognised is swallowed: it is neither stored nor confirmed.
func (b *broker) accept(batch *relaycore.Batch, i int) (r relaycore.Result) {
	m := batch.Messages[i]
	stored, copied := b.known[lifeOf(m)]
	if copied = copied && b.w.now-stored < b.window(); copied && !m.Resent {
		return relaycore.Result{Err: errRefused, Swallowed: true}
	}
	if !copied {
		b.store(batch, i)
	}
	if b.w.plan.Follower && m.Dest != follower {
		r.Followers = []string{follower}
	}
	return r
}

// store accepts a message.
func (b *broker) store(batch *relaycore.Batch, i int) {
	b.known[lifeOf(batch.Messages[i])] = b.w.now
	b.order = append(b.order, rowOf(batch.Messages[i]).id)
	err := b.ledger.store(b.w.store, batch, i, b.w.clock())
	b.w.say("%s is stored", copyOf(batch.Messages[i]))
	b.w.check(err)
	if c := b.consumer(batch.Messages[i].Dest); c != nil {
		c.arrive(rowOf(batch.Messages[i]).id)
	}
}
