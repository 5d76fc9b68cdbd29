package main

import (
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// ledger records what the broker has stored and refused. It checks the promises that can be checked
// where a message is stored or settled.
type ledger struct {
	accepted map[string]int // copies, by copyOf
	failures map[string]int // refusals that count as attempts, by the same
	lives    map[string]int // copies of one life, by lifeOf
}

func newLedger() *ledger {
	return &ledger{accepted: make(map[string]int), failures: make(map[string]int), lives: make(map[string]int)}
}

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
	if r.key == "" || r.alone || l.accepted[name] > 1 {
		return nil
	}
	holds := func(o *row) bool {
		return o.position < m.Position && o.topic == r.topic && o.key == r.key && !o.alone && o.life == 0 &&
			l.accepted[o.id+"@"+m.Dest] == 0 && !inBatch(b, o.position)
	}
	for _, o := range s.rows {
		if (!o.waits || o.dest == m.Dest) && holds(o) {
			return fmt.Errorf("%s is stored before %s, an earlier message of its key", name, o.id)
		}
	}
	for _, o := range s.dead {
		if o.parks && o.dest == m.Dest && holds(o) {
			return fmt.Errorf("%s is stored although the dead letter of %s parks its key", name, o.id)
		}
	}
	return nil
}

// inBatch reports whether a batch has the message at a position.
func inBatch(b *relaycore.Batch, position int64) bool {
	return slices.ContainsFunc(b.Messages, func(m *relaycore.Message) bool { return m.Position == position })
}

// settle checks outcomes: nothing is published without a confirm, and no attempt is counted that did
// not fail.
func (l *ledger) settle(list []relaycore.Settlement) error {
	for i := range list {
		st := &list[i]
		name := copyOf(st.Message)
		if st.Outcome == relaycore.Published && l.lives[lifeOf(st.Message)] == 0 {
			return fmt.Errorf("%s is settled as published, and was never stored in life %d", name, st.Message.Life)
		}
		if st.Attempts > l.failures[name] {
			return fmt.Errorf("%s counts %d attempts, and has failed %d times", name, st.Attempts, l.failures[name])
		}
	}
	return nil
}

// end checks that every message was stored by each destination, or is a dead letter.
func (l *ledger) end(s *store, messages int, dests []string) error {
	for n := range messages {
		id := fmt.Sprint("m", n)
		for _, d := range dests {
			dead := slices.ContainsFunc(s.dead, func(r *row) bool { return r.id == id && (r.dest == d || r.dest == "") })
			if l.accepted[id+"@"+d] == 0 && !dead {
				return fmt.Errorf("%s is lost: neither stored by destination %q nor a dead letter", id, d)
			}
		}
	}
	return nil
}
