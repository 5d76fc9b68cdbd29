package main

import (
	"cmp"
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// store is what a store's tables hold, and the rules of its rows.
type store struct {
	rows      []*row // by position, and by destination among equal ones
	open      []*row // of transactions that have not committed
	scheduled []*row // not in the outbox before their time
	dead      []*row
	position  int64
	lanes     []laneRow
	nodes     map[string]relaycore.Time // when their leases end
	published map[string]int            // settlements, by message and destination
}

// laneRow says who owns a lane.
type laneRow struct {
	owner string
	epoch int64
}

// row is a message in the outbox or among the waiting rows, or a dead letter.
type row struct {
	position int64
	lane     int
	id       string
	dest     string
	topic    string
	key      string
	tenant   string
	attempts int
	life     int
	waits    bool
	alone    bool
	due      relaycore.Time // of a waiting row; never if it is behind another one
	parks    bool           // of a dead letter
	resolved bool           // of a dead letter
	expires  relaycore.Time // 0 if it does not
	deliver  relaycore.Time // not to be sent before; 0 if it may
	routes   []string       // the destinations that it goes to; nil if it goes to all
	size     int            // of its payload
	odd      oddity
	requeued bool  // by an operator
	passed   int64 // what was scheduled and released up to this position, while the transaction was open, may go first
}

// oddity is what is wrong with a message.
type oddity int

const (
	malformed oddity = iota + 1 // it does not decode
	unrouted                    // no destination matches it
	unasked                     // its destination sometimes fails to report whether it matches
)

// routesOf returns those of dests that the row goes to.
func (r *row) routesOf(dests []string) []string {
	switch {
	case r.odd == unrouted:
		return nil
	case r.routes != nil:
		return r.routes
	}
	return dests
}

// goesTo reports whether the row is for a destination that is no follower.
func (r *row) goesTo(dest string) bool {
	return dest != follower && r.odd != unrouted && (r.routes == nil || slices.Contains(r.routes, dest))
}

const never = relaycore.Time(1<<63 - 1)

func newStore(lanes int) *store {
	return &store{lanes: make([]laneRow, lanes), nodes: make(map[string]relaycore.Time), published: make(map[string]int)}
}

// begin draws the position of a message whose transaction has yet to commit.
func (s *store) begin(r row) *row {
	s.position++
	r.position = s.position
	s.open = append(s.open, &r)
	return &r
}

// release moves messages that have come due into the outbox, where they get new positions in that order.
func (s *store) release(limit int, now relaycore.Time) relaycore.Event {
	slices.SortFunc(s.scheduled, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.deliver, b.deliver), cmp.Compare(a.position, b.position))
	})
	moved := 0
	s.scheduled = slices.DeleteFunc(s.scheduled, func(r *row) bool {
		due := r.deliver <= now && moved < limit
		if due {
			moved++
			r.deliver = 0
			for _, o := range s.open {
				o.passed = s.position + 1
			}
			s.commit(s.begin(*r))
		}
		return due
	})
	return relaycore.Released{Count: moved}
}

// count counts which keys are parked in lanes, once for every destination, and what waits behind them.
func (s *store) count(lanes []relaycore.Lane) relaycore.Event {
	var parking []*row
	for _, d := range s.dead {
		if d.parks && slices.ContainsFunc(lanes, func(l relaycore.Lane) bool { return l.Number == d.lane }) {
			parking = append(parking, d)
		}
	}
	keys, messages := 0, 0
	for i, d := range parking {
		if !slices.ContainsFunc(parking[:i], func(o *row) bool { return sameUnit(o, d) }) {
			keys++
		}
	}
	for _, r := range s.rows {
		if r.waits && slices.ContainsFunc(parking, func(d *row) bool { return sameUnit(d, r) && d.position < r.position }) {
			messages++
		}
	}
	return relaycore.Counted{Keys: keys, Messages: messages}
}

// commit makes a message visible to claims.
func (s *store) commit(r *row) {
	s.open = slices.DeleteFunc(s.open, func(o *row) bool { return o == r })
	s.rows = append(s.rows, r)
	s.sort()
}

func (s *store) sort() {
	slices.SortStableFunc(s.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.dest, b.dest))
	})
}

// is reports whether a message was read from the row.
func (r *row) is(m *relaycore.Message) bool {
	return r.position == m.Position && r.waits == m.Waiting && (!r.waits || r.dest == m.Dest)
}

func sameUnit(a, b *row) bool { return a.dest == b.dest && a.topic == b.topic && a.key == b.key }

// ahead reports whether an earlier message of r's unit waits in order, or is a dead letter that parks.
func (s *store) ahead(r *row) bool {
	if r.key == "" {
		return false
	}
	before := func(o *row) bool { return sameUnit(o, r) && o.position < r.position }
	return slices.ContainsFunc(s.rows, func(o *row) bool { return o.waits && !o.alone && before(o) }) ||
		slices.ContainsFunc(s.dead, func(o *row) bool { return o.parks && before(o) })
}

// blocked reports whether a message that was never tried must follow its key to the waiting rows, whatever its
// destinations will be.
func (s *store) blocked(r *row) bool {
	follows := func(o *row) bool { return r.key != "" && o.topic == r.topic && o.key == r.key }
	return slices.ContainsFunc(s.rows, func(o *row) bool { return o.waits && !o.alone && follows(o) }) ||
		slices.ContainsFunc(s.dead, func(o *row) bool { return o.parks && follows(o) })
}

// left returns what is in the outbox and the waiting rows, or will be.
func (s *store) left() int { return len(s.rows) + len(s.open) + len(s.scheduled) }
