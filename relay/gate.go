package relay

import (
	"maps"
	"slices"
	"time"
)

// gate is where messages leave for a destination. All leave by its main gate, but for those
// of topics in trouble: each of these has a side gate of its own, so that it holds up nobody
// else. The backlog's mutex guards gates.
type gate struct {
	outlet  *outlet
	topic   string // of a side gate
	side    bool
	ready   turns
	waiting crowd // in lines of this gate, not on their way
	running int   // batches
	slots   slots
	breaker

	congested bool // it is slower than what comes for it: little of that is held in memory
}

const (
	sideBatches = 16   // batches that leave by the side gates of one destination at a time
	awayRate    = 1000 // messages per second that come back after they were sent away
	awayLeast   = time.Second
)

// gateFor returns the gate by which messages of a topic leave.
func (o *outlet) gateFor(topic string) *gate {
	if g := o.sides[topic]; g != nil {
		return g
	}
	return o.main
}

// divert gives a topic a side gate.
func (o *outlet) divert(topic string) *gate {
	g := o.sides[topic]
	if g == nil {
		g = &gate{outlet: o, topic: topic, side: true}
		o.sides[topic] = g
	}
	return g
}

// undivert lets a topic leave by the main gate again.
func (o *outlet) undivert(topic string) {
	g := o.sides[topic]
	delete(o.sides, topic)
	for l := g.ready.pop(); l != nil; l = g.ready.pop() {
		l.enlist()
	}
}

// cutMixed ends the wait for batches of several topics that were set aside, now that others
// are answered: what was confirmed is known then, and only the rest is sent again.
func (o *outlet) cutMixed() {
	for _, b := range o.mixed {
		b.cut()
	}
	o.mixed = nil
}

// ready reports whether anything could be sent if gates and rate allowed it.
func (o *outlet) ready() bool {
	for _, g := range o.sides {
		if g.ready.count > 0 {
			return true
		}
	}
	return o.main.ready.count > 0
}

// enlist puts the line among those that are ready, at the gate by which its topic leaves now.
func (l *line) enlist() {
	l.enter(l.gate.outlet.gateFor(l.topic))
	if l.ready() && !l.listed {
		l.gate.ready.push(l)
	}
}

// enter moves the line to a gate.
func (l *line) enter(g *gate) {
	if l.gate == g {
		return
	}
	for _, c := range l.queue {
		l.gate.waiting.add(c, -1)
		g.waiting.add(c, 1)
	}
	l.gate = g
}

// enlistFirst is enlist for a line that is to be the next one.
func (l *line) enlistFirst() {
	l.enter(l.gate.outlet.gateFor(l.topic))
	if l.ready() && !l.listed {
		l.gate.ready.pushFirst(l)
	}
}

// append adds a message to the end of the line.
func (l *line) append(c *Claim) {
	l.queue = append(l.queue, c)
	l.gate.waiting.add(c, 1)
	l.enlist()
}

// putBack adds a message that was not sent to the front of the line, or, if the connection ended
// with it alone and there is no order to keep, behind the first.
func (l *line) putBack(c *Claim, alone bool) {
	at := 0
	if alone && l.key == "" {
		at = min(1, len(l.queue))
	}
	l.queue = slices.Insert(l.queue, at, c)
	l.gate.waiting.add(c, 1)
}

// take removes the first n messages of the line.
func (l *line) take(n int) []*Claim {
	taken := l.queue[:n:n]
	l.queue = l.queue[n:]
	for _, c := range taken {
		l.gate.waiting.add(c, -1)
	}
	return taken
}

// width is how many batches may leave by the gate at a time.
func (g *gate) width(parallelism int) int {
	if g.probing() {
		return 1
	}
	return parallelism
}

// open returns how many messages may leave by the gate now, at most limit.
func (g *gate) open(limit, parallelism int) int {
	if g.ready.count == 0 || g.outlet.alone || g.running >= g.width(parallelism) || g.outlet.main.paused() > 0 || g.paused() > 0 {
		return 0
	}
	if g.side && g.outlet.aside >= sideBatches {
		return 0
	}
	return g.outlet.pace.allowed(limit)
}

// next returns a batch of at most limit messages, which may be none. Lines take turns: each
// gives what it has, or, if single is set, one message at a time. A message that may end the
// connection is a batch of its own.
func (g *gate) next(limit int, single bool) *batch {
	most := min(limit, g.waiting.total)
	b := &batch{gate: g, claims: make([]*Claim, 0, most), lines: make([]*line, 0, most)}
	l, witness := g.first()
	if witness {
		limit = 1 // the others may be needed yet
	}
	for l != nil {
		suspicious := g.outlet.suspicious(l.queue[0].Position)
		if suspicious && len(b.claims) > 0 {
			g.ready.pushFirst(l)
			break
		}
		b.alone = suspicious
		b.add(l, l.fits(limit-len(b.claims), single || b.alone))
		if b.alone || len(b.claims) >= limit {
			break
		}
		l = g.pop()
	}
	g.outlet.pace.use(len(b.claims))
	g.congested = g.congested && g.waiting.total > limit
	return b
}

// pop returns the next line that is ready to leave by the gate, nil if there is none.
func (g *gate) pop() *line {
	for l := g.ready.pop(); l != nil; l = g.ready.pop() {
		if g.outlet.gateFor(l.topic) == g && l.ready() {
			return l
		}
		l.enlist()
	}
	return nil
}

// first returns the line that begins a batch. Those whose first message is accused let another
// go before, which is to witness that the destination is well; if there is no other, the one goes
// that has waited for longest.
func (g *gate) first() (l *line, witness bool) {
	var accused []*line
	for l = g.pop(); l != nil && g.outlet.accused(l.queue[0].Position); l = g.pop() {
		accused = append(accused, l)
	}
	witness = l != nil && len(accused) > 0
	if l == nil && len(accused) > 0 {
		l = accused[len(accused)-1]
		accused = accused[:len(accused)-1]
	}
	for _, a := range slices.Backward(accused) {
		g.ready.pushFirst(a)
	}
	return l, witness
}

// fits returns how many messages of the line may be sent together, at most limit.
func (l *line) fits(limit int, single bool) int {
	n := min(limit, len(l.queue))
	if single || l.queue[0].expired() {
		return min(n, 1)
	}
	for i, c := range l.queue[:n] {
		if i > 0 && (c.expired() || l.gate.outlet.suspicious(c.Position)) {
			return i
		}
	}
	return n
}

// away returns how long a message stays away that has no room, or whose gate is closed.
func (g *gate) away(tenant string) time.Duration {
	least := max(awayLeast, g.paused(), g.outlet.main.paused())
	rate := g.outlet.pace.rate
	if rate == 0 {
		rate = awayRate
	}
	return g.slots.after(tenant, least, rate)
}

// relieve sends messages away that fill the memory because their gates are slow, so that
// what is for others can be read. Where all leave by one gate there are no others.
func (r *Relay) relieve() {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	var gates []*gate
	for _, o := range r.outlets {
		gates = append(gates, o.main)
		gates = slices.AppendSeq(gates, maps.Values(o.sides))
	}
	if len(gates) == 1 {
		return
	}
	share := r.readAhead / (2 * len(gates))
	for _, g := range gates {
		if g.waiting.total > share && (g.side || len(r.outlets) > 1) {
			g.congested = true
			r.sendAway(g, share, "the destination is slow")
		}
	}
}

// sendAway moves messages that are ready to the waiting rows until so many are left.
func (r *Relay) sendAway(g *gate, left int, why string) {
	for g.waiting.total > left {
		l := g.ready.pop()
		if l == nil {
			return
		}
		if l.gate == g && !l.underWay() {
			r.moveLineAway(l, left, why)
		}
		l.enlist()
	}
}

// crowd counts messages, in all and by tenant.
type crowd struct {
	total   int
	tenants map[string]int
}

func (w *crowd) add(c *Claim, n int) {
	if w.tenants == nil {
		w.tenants = make(map[string]int)
	}
	w.total += n
	tenant := c.Message.Tenant
	if w.tenants[tenant] += n; w.tenants[tenant] == 0 {
		delete(w.tenants, tenant)
	}
}
