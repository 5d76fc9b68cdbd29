package relaycore

import "slices"

const (
	heldBatches  = 50   // read ahead, so that publishing does not wait for reading
	maxHeld      = 5000 // messages, unless one batch has more
	maxHeldBytes = 16 << 20
)

// held counts claimed messages that are not settled. Each is in a line, in a batch in flight, or has an
// outcome that is not stored yet.
type held struct {
	count    int
	bytes    int
	deferred int // messages that are not sent by this claim
}

// add counts a message until it is released.
func (h *held) add(m *Message) {
	h.count++
	h.bytes += m.Size
}

// lighten marks a message as not to be sent: the shell drops its payload.
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

// claimed returns the positions of held messages, ascending, and, for those with only the waiting rows for
// some destinations held, these destinations.
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

// lanesHeld returns the lanes with held messages, with whether some of these are of an earlier epoch.
func (c *Core) lanesHeld() (older map[int]bool) {
	if older = make(map[int]bool); c.held.count > 0 {
		c.eachHeld(func(m *Message) { older[m.Lane.Number] = older[m.Lane.Number] || !c.lease.owns(m.Lane) })
	}
	return older
}

// drop forgets the messages of some lanes, except those in flight: other claims find them.
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
