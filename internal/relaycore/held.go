package relaycore

import (
	"maps"
	"slices"
)

const (
	heldBatches  = 50   // read ahead, so that publishing does not wait for reading
	maxHeld      = 5000 // messages, unless one batch has more
	maxHeldBytes = 16 << 20
)

// held counts what was claimed and is not settled.
type held struct {
	positions map[int64]int      // messages: several if they go to several destinations
	dests     map[int64][]string // of waiting rows for one of several destinations
	lanes     map[Lane]int
	count     int
	bytes     int
	deferred  int // messages that are only moved
}

func (h *held) reset() {
	*h = held{positions: make(map[int64]int), dests: make(map[int64][]string), lanes: make(map[Lane]int)}
}

// add counts a message in until it is released.
func (h *held) add(m *Message) {
	h.positions[m.Position]++
	if m.Waiting && m.Dest != "" {
		h.dests[m.Position] = append(h.dests[m.Position], m.Dest)
	}
	h.lanes[m.Lane]++
	h.count++
	h.bytes += m.Size
}

// lighten notes that a message will not be sent: the shell drops its payload.
func (h *held) lighten(m *Message) {
	m.Deferred = true
	h.bytes -= m.Size - EmptySize
	m.Size = EmptySize
	h.deferred++
}

// release forgets a message: it is settled, or left for another claim.
func (h *held) release(m *Message) {
	if h.positions[m.Position]--; h.positions[m.Position] == 0 {
		delete(h.positions, m.Position)
	}
	if m.Waiting && m.Dest != "" {
		left := slices.DeleteFunc(h.dests[m.Position], func(d string) bool { return d == m.Dest })
		if h.dests[m.Position] = left; len(left) == 0 {
			delete(h.dests, m.Position)
		}
	}
	if h.lanes[m.Lane]--; h.lanes[m.Lane] == 0 {
		delete(h.lanes, m.Lane)
	}
	h.count--
	h.bytes -= m.Size
	if m.Deferred {
		h.deferred--
	}
}

// sorted returns the positions of what is held.
func (h *held) sorted() []int64 { return slices.Sorted(maps.Keys(h.positions)) }

// partly returns the destinations of what is held as waiting rows for some destinations only.
func (h *held) partly() map[int64][]string {
	partly := make(map[int64][]string, len(h.dests))
	for p, dests := range h.dests {
		if len(dests) == h.positions[p] {
			partly[p] = slices.Clone(dests)
		}
	}
	return partly
}

// of reports whether messages of a lane are held, and whether some of another epoch.
func (h *held) of(lane Lane) (some, older bool) {
	for l := range h.lanes {
		if l.Number == lane.Number {
			some, older = true, older || l.Epoch != lane.Epoch
		}
	}
	return some, older
}

// drop forgets the messages of some lanes that are not in flight: other claims find them.
func (c *Core) drop(gone func(Lane) bool) {
	for _, l := range c.linesWhere(func(l *line) bool { return len(l.waiting) > 0 }) {
		for _, m := range l.remove(func(m *Message) bool { return gone(m.Lane) }) {
			c.held.release(m)
		}
		c.tidy(l)
	}
	for _, d := range c.dests {
		d.forget(gone)
	}
}
