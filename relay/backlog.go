package relay

import (
	"maps"
	"slices"
	"sync"
)

// unit is what order is kept by: a key of a topic, per destination.
type unit struct{ destination, topic, key string }

func unitOf(c *Claim) unit {
	return unit{c.Destination, c.Message.Address(), c.Message.Key}
}

// line holds what was claimed of one unit and not sent yet, in order. Of a unit with a key
// one batch at a time is under way; messages without a key keep no order.
type line struct {
	unit
	gate   *gate
	queue  []*Claim
	listed bool // among the gate's lines that are ready
	busy   bool // a batch of it is under way
	closed int  // outcomes being written down that nothing may pass
	waits  int  // those of them behind which the rest of the line waits in the store
}

// ready reports whether the first of the line may be sent.
func (l *line) ready() bool { return len(l.queue) > 0 && !l.underWay() }

// underWay reports whether messages of the line's key are on their way, or being written down.
func (l *line) underWay() bool { return l.busy || l.closed > 0 }

// backlog is what was claimed and not yet settled. Its mutex guards lines and gates, too.
type backlog struct {
	mu    sync.Mutex
	lines map[unit]*line
	held  map[int64]int // messages by position: several if they go to several destinations
	lanes map[Lane]int  // messages by lane
	count int
	bytes int
	aside int // messages in batches that are not counted at main gates
	away  int // messages on their way to the waiting rows, unsent

	claiming map[int]bool // lanes of the claim under way; nil if there is none
	reopen   []*line      // once that claim has been taken in
}

func newBacklog() *backlog {
	b := &backlog{}
	b.reset()
	return b
}

// reset empties the backlog.
func (b *backlog) reset() {
	b.lines, b.held, b.lanes = make(map[unit]*line), make(map[int64]int), make(map[Lane]int)
	b.count, b.bytes, b.aside, b.away, b.claiming, b.reopen = 0, 0, 0, 0, nil, nil
}

// emptyWeight is about what a message without payload takes in memory.
const emptyWeight = 640

func weight(c *Claim) int {
	w := emptyWeight + len(c.Message.Payload)
	for name, value := range c.Message.Headers {
		w += len(name) + len(value)
	}
	return w
}

// hold counts a message in until it is released.
func (b *backlog) hold(c *Claim) {
	b.held[c.Position]++
	b.lanes[c.Lane]++
	b.count++
	c.weight = weight(c)
	b.bytes += c.weight
}

// lighten drops the payload of a message that is not going to be sent: the store has it.
func (b *backlog) lighten(c *Claim) {
	c.Message.Payload = nil
	b.bytes += emptyWeight - c.weight
	c.weight = emptyWeight
	if !c.away {
		c.away = true
		b.away++
	}
}

// release forgets a message: it is settled, or left for another claim.
func (b *backlog) release(c *Claim) {
	if b.held[c.Position]--; b.held[c.Position] == 0 {
		delete(b.held, c.Position)
	}
	if b.lanes[c.Lane]--; b.lanes[c.Lane] == 0 {
		delete(b.lanes, c.Lane)
	}
	b.count--
	b.bytes -= c.weight
	if c.away {
		b.away--
	}
}

// startClaim notes that a claim is under way and returns the positions that are held.
func (b *backlog) startClaim(lanes []Lane) []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claiming = make(map[int]bool, len(lanes))
	for _, l := range lanes {
		b.claiming[l.Number] = true
	}
	return slices.Sorted(maps.Keys(b.held))
}

// endClaim notes that what a claim has returned was taken in. Lines of which an outcome was
// written down meanwhile open only now: the claim may have been older than the outcome.
func (b *backlog) endClaim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claiming = nil
	for _, l := range b.reopen {
		l.waits--
		b.tidy(l)
	}
	b.reopen = nil
}

// size returns how many messages are held, and their weight.
func (b *backlog) size() (count, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count, b.bytes
}

// load is as size, without the messages for which others need not wait: those that were set
// aside, and those that only have to be moved.
func (b *backlog) load() (count, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count - b.aside - b.away, b.bytes
}

// still reports whether nothing of a lane is held or being claimed.
func (b *backlog) still(lane int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.lanes {
		if l.Number == lane {
			return false
		}
	}
	return !b.claiming[lane]
}

// holdsOlder reports whether messages of the lane are held that were claimed under another
// epoch.
func (b *backlog) holdsOlder(lane Lane) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.lanes {
		if l.Number == lane.Number && l.Epoch != lane.Epoch {
			return true
		}
	}
	return false
}

// line returns the line of a unit and makes it if there is none.
func (b *backlog) line(u unit, g *gate) *line {
	l := b.lines[u]
	if l == nil {
		l = &line{unit: u, gate: g}
		b.lines[u] = l
	}
	return l
}

// tidy forgets a line that nothing is known of any more.
func (b *backlog) tidy(l *line) {
	if len(l.queue) == 0 && !l.busy && l.closed == 0 && l.waits == 0 {
		delete(b.lines, l.unit)
	}
}

// drop forgets the messages of some lanes that are not on their way: other claims find them.
func (b *backlog) drop(dropped func(lane Lane) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		b.dropFrom(l, dropped)
		b.tidy(l)
	}
}

func (b *backlog) dropFrom(l *line, dropped func(lane Lane) bool) {
	l.queue = slices.DeleteFunc(l.queue, func(c *Claim) bool {
		if !dropped(c.Lane) {
			return false
		}
		l.gate.waiting.add(c, -1)
		b.release(c)
		return true
	})
}
