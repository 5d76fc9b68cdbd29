package main

import (
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// ledger records what the broker has stored and refused. It checks the promises that can be checked
// where a message is stored or settled.
type ledger struct {
	accepted map[string]int // copies, by copyOf
	failures map[string]int // refusals that count as attempts, by the same
	lives    map[string]int // copies of one life, by lifeOf
	parks    bool           // a dead letter parks its key
	retries  int            // that a message gets
	follows  bool           // messages become due for the follower in their order: one destination sends them, one by one
}

func newLedger(order relaycore.Order, retries int) *ledger {
	return &ledger{parks: order == relaycore.Park, retries: retries, accepted: make(map[string]int), failures: make(map[string]int), lives: make(map[string]int)}
}

// follower is the destination that gets what was published.
const follower = "f"

// rowOf returns the row that a message was claimed from, as it was then.
func rowOf(m *relaycore.Message) *row { return m.Tag.(*row) }

// copyOf names a message at a destination.
func copyOf(m *relaycore.Message) string { return rowOf(m).id + "@" + m.Dest }

// lifeOf names one life of a message at a destination.
func lifeOf(m *relaycore.Message) string { return fmt.Sprint(copyOf(m), "#r", m.Life) }

// store notes that the broker has stored message i of a batch. The first copy of a message must not be
// stored while an earlier message of its key is neither stored nor resolved, unless that was sent with
// it, before it was refused.
func (l *ledger) store(s *store, b *relaycore.Batch, i int) error {
	m := b.Messages[i]
	r, name := rowOf(m), copyOf(m)
	l.accepted[name]++
	l.lives[lifeOf(m)]++
	if r.key == "" || r.alone || l.accepted[name] > 1 || m.Dest == follower && !l.follows {
		return nil
	}
	holds := func(o *row) bool {
		return o.position < m.Position && o.topic == r.topic && o.key == r.key && !o.alone && o.life == 0 && o.deliver == 0 &&
			l.accepted[o.id+"@"+m.Dest] == 0 && !inBatch(b, o.position)
	}
	for _, o := range s.rows {
		if (o.dest == m.Dest || !o.waits && m.Dest != follower) && holds(o) {
			return fmt.Errorf("%s is stored before %s, an earlier message of its key", name, o.id)
		}
	}
	for _, o := range s.dead {
		if l.parks && !o.resolved && o.dest == m.Dest && holds(o) {
			return fmt.Errorf("%s is stored although the dead letter of %s parks its key", name, o.id)
		}
	}
	return nil
}

// inBatch reports whether a batch has the message at a position.
func inBatch(b *relaycore.Batch, position int64) bool {
	return slices.ContainsFunc(b.Messages, func(m *relaycore.Message) bool { return m.Position == position })
}

// settle checks outcomes: nothing is published without a confirm, no attempt is counted that did not
// fail, and none is made too often.
func (l *ledger) settle(list []relaycore.Settlement) error {
	for i := range list {
		st := &list[i]
		name := copyOf(st.Message)
		switch {
		case st.Outcome == relaycore.Published && l.lives[lifeOf(st.Message)] == 0:
			return fmt.Errorf("%s is settled as published, and was never stored in life %d", name, st.Message.Life)
		case st.Attempts > l.failures[name] && st.Reason != waybill.ReasonExpired:
			return fmt.Errorf("%s counts %d attempts, and has failed %d times", name, st.Attempts, l.failures[name])
		case st.Outcome == relaycore.Wait && st.Attempts > l.retries:
			return fmt.Errorf("%s is tried again after %d failures, the limit is %d", name, st.Attempts, l.retries)
		case st.Reason == waybill.ReasonExhausted && st.Attempts <= l.retries:
			return fmt.Errorf("%s is given up after %d failures, before it was tried %d times", name, st.Attempts, l.retries)
		}
	}
	return nil
}

// counts reports whether a result counts as a failed attempt.
func counts(r relaycore.Result) bool {
	return r.Err != nil && !r.Swallowed && r.Kind != waybill.Unavailable && r.Kind != waybill.Conflict
}

// answered checks outcomes against the latest results of sending the messages.
func (l *ledger) answered(list []relaycore.Settlement, results map[*relaycore.Message]relaycore.Result) error {
	for i := range list {
		st := &list[i]
		r, sent := results[st.Message]
		life := st.Message.Life
		if sent && r.Swallowed {
			life++
		}
		if st.Life != life && st.Outcome == relaycore.Wait {
			return fmt.Errorf("%s waits for life %d, want %d", copyOf(st.Message), st.Life, life)
		}
		if !sent || st.Reason == waybill.ReasonPoison || st.Reason == waybill.ReasonExpired {
			continue
		}
		want := st.Message.Attempts
		if counts(r) {
			want++
		}
		if st.Attempts != want {
			return fmt.Errorf("%s counts %d attempts after %v, want %d", copyOf(st.Message), st.Attempts, r.Kind, want)
		}
		if final := r.Kind == waybill.Permanent && r.Reason != waybill.ReasonUnroutable; final && st.Outcome != relaycore.DeadLetter {
			return fmt.Errorf("%s was refused for good, and is no dead letter", copyOf(st.Message))
		}
		if r.Err == nil && st.Outcome != relaycore.Published {
			return fmt.Errorf("%s was accepted, and is not published", copyOf(st.Message))
		}
	}
	return nil
}

// flight checks what one relay has in flight: of a key one batch at a time, and in strict mode one
// message.
type flight map[unit]*relaycore.Batch

// unit is a key of a topic at a destination.
type unit struct{ dest, topic, key string }

func (f flight) send(b *relaycore.Batch, strict bool) error {
	for _, m := range b.Messages {
		if m.Key == "" {
			continue
		}
		u := unit{m.Dest, m.Topic, m.Key}
		if other := f[u]; other != nil && (other != b || strict) {
			return fmt.Errorf("%s is sent while another message of its key is in flight", copyOf(m))
		}
		f[u] = b
	}
	return nil
}

func (f flight) end(b *relaycore.Batch) {
	for _, m := range b.Messages {
		delete(f, unit{m.Dest, m.Topic, m.Key})
	}
}

// end checks that every message was stored by each destination, or is a dead letter.
func (l *ledger) end(s *store, messages int, dests []string) error {
	for n := range messages {
		id := fmt.Sprint("m", n)
		for _, d := range dests {
			dead := slices.ContainsFunc(s.dead, func(r *row) bool { return r.id == id && (r.dest == d || r.dest == "") })
			at := l.accepted[id+"@"+d] > 0
			if d == follower && s.published[id+"@"+dests[0]] == 0 {
				continue
			}
			if !at && !dead {
				return fmt.Errorf("%s is lost: neither stored by destination %q nor a dead letter", id, d)
			}
		}
	}
	return nil
}
