package relaycore

import "slices"

const (
	heldBatches  = 50   // read ahead, so that publishing does not wait for reading
	maxHeld      = 5000 // messages, unless one batch has more
	maxHeldBytes = 16 << 20
)

// held counts what was claimed and is not settled. Each such message lies in a line, is in a batch in flight,
// or has an outcome that is not stored yet.
type held struct {
	count    int
	bytes    int
	deferred int // messages that are only moved
}

// add counts a message in until it is released.
func (h *held) add(m *Message) {
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
	h.count--
	h.bytes -= m.Size
	if m.Deferred {
		h.deferred--
	}
}

// eachHeld calls do for every message that is held, in no order.
func (c *Core) eachHeld(do func(*Message)) {
	for _, l := range c.lines {
		for _, m := range l.waiting {
			do(m)
		}
	}
	for _, d := range c.dests {
		for _, b := range d.batches {
			for _, m := range b.Messages {
				do(m)
			}
		}
	}
	c.settler.each(do)
}

// claimed returns the positions of what is held, ascending, and of those of which only the waiting rows for
// some destinations are held, these destinations.
func (c *Core) claimed() (positions []int64, partly map[int64][]string) {
	positions, partly = make([]int64, 0, c.held.count), make(map[int64][]string)
	c.eachHeld(func(m *Message) {
		positions = append(positions, m.Position)
		if m.Waiting && m.Dest != "" {
			partly[m.Position] = append(partly[m.Position], m.Dest)
		}
	})
	slices.Sort(positions)
	for _, dests := range partly {
		slices.Sort(dests)
	}
	return slices.Compact(positions), partly
}

// lanesHeld says of each lane of which messages are held whether some are of an earlier epoch.
func (c *Core) lanesHeld() (older map[int]bool) {
	if older = make(map[int]bool); c.held.count > 0 {
		c.eachHeld(func(m *Message) { older[m.Lane.Number] = older[m.Lane.Number] || !c.lease.owns(m.Lane) })
	}
	return older
}

// drop forgets the messages of some lanes that are not in flight: other claims find them.
func (c *Core) drop(gone func(Lane) bool) {
	for _, l := range c.lines {
		for _, m := range l.remove(func(m *Message) bool { return gone(m.Lane) }) {
			c.held.release(m)
		}
		c.tidy(l)
	}
	for _, d := range c.dests {
		d.forget(gone)
	}
}
