// Package history judges what arrived at a broker by what was committed. It is imported by
// tests only.
package history

import (
	"fmt"
	"strings"
)

// Message is one message of a committed transaction.
type Message struct {
	ID  string
	Key string
	Seq int // place among the messages of Key: rises from commit to commit
}

// Report counts what Check has found.
type Report struct {
	Committed int
	Arrived   int // on the broker, repetitions counted
	Lost      int // committed and never arrived
	Phantom   int // arrivals of what was never committed
	Reordered int // arrived for the first time after a later message of their key had
	Doubled   int // arrivals of what had arrived before

	// Faults describes the first few lost, phantom and reordered messages.
	Faults []string
}

// maxFaults is how many faults are described.
const maxFaults = 10

// Check compares committed messages, whose ids must be different, with the ids that arrived,
// in the order of their arrival.
//
// A relay may deliver again what was in flight when it ended, so a message may arrive any
// number of times, and at any time after its first arrival. The first arrivals of a key must
// be in sequence.
func Check(committed []Message, arrived []string) Report {
	c := checker{
		Report: Report{Committed: len(committed), Arrived: len(arrived)},
		known:  make(map[string]*Message, len(committed)),
		seen:   make(map[string]bool, len(committed)),
		latest: make(map[string]*Message),
	}
	for i := range committed {
		c.known[committed[i].ID] = &committed[i]
	}
	for at, id := range arrived {
		c.arrive(at, id)
	}
	for _, m := range committed {
		if !c.seen[m.ID] {
			c.Lost++
			c.fault("%s, number %d of key %s, is lost", m.ID, m.Seq, m.Key)
		}
	}
	return c.Report
}

// checker is a running Check.
type checker struct {
	Report
	known  map[string]*Message
	seen   map[string]bool     // ids that have arrived
	latest map[string]*Message // of each key: the highest in sequence that has arrived
}

func (c *checker) arrive(at int, id string) {
	m := c.known[id]
	switch {
	case m == nil:
		c.Phantom++
		c.fault("arrival %d, %s, was never committed", at, id)
		return
	case c.seen[id]:
		c.Doubled++
		return
	}
	c.seen[id] = true
	if later := c.latest[m.Key]; later != nil && later.Seq > m.Seq {
		c.Reordered++
		c.fault("arrival %d, %s, number %d of key %s, came after number %d", at, id, m.Seq, m.Key, later.Seq)
		return
	}
	c.latest[m.Key] = m
}

func (c *checker) fault(format string, args ...any) {
	if len(c.Faults) < maxFaults {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
}

// OK reports whether nothing is lost, phantom or reordered. Doubled messages are allowed.
func (r Report) OK() bool { return r.Lost == 0 && r.Phantom == 0 && r.Reordered == 0 }

// String returns the counts in one line, and the faults, if there are any, in one line each.
func (r Report) String() string {
	counts := fmt.Sprintf("committed %d, on the broker %d, lost %d, phantom %d, out of order %d, doubled %d",
		r.Committed, r.Arrived, r.Lost, r.Phantom, r.Reordered, r.Doubled)
	return strings.Join(append([]string{counts}, r.Faults...), "\n\t")
}
