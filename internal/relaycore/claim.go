package relaycore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	// The least time between claims that find little: without it they would cost the database more than
	// the messages do.
	claimInterval = 5 * time.Millisecond
	claimBurst    = 20
	// againInterval is how often every lane is read from its beginning: a safety net, because stores
	// skip rows that they have read.
	againInterval = 10 * time.Minute
	// dueTick is the resolution of due times, which bounds how many are kept.
	dueTick = 10 * time.Millisecond
	// parkedInterval is the least time between counts of parked messages. If counting is slow it takes
	// no more than a twentieth of the time.
	parkedInterval = time.Second
	parkedShare    = 20
)

// phase is what reading is waiting for.
type phase int

const (
	reading   phase = iota // nothing: the next claim may begin
	releasing              // due scheduled messages are moved into the outbox
	counting               // parked messages are counted
	claiming
	resting  // everything was read; waiting for the claim interval
	awaiting // until there may be more
	waking   // the wait is being ended
)

// read is the state of reading from the store: release, count, claim and, if everything was read, wait
// until there may be more.
type read struct {
	phase  phase
	news   bool // a reason to read again
	tries  attempts
	began  Time // of the latest claim
	little Time // when the claims that found little would be over with one in each claimInterval

	cmd      Claim  // the latest
	busy     bool   // the latest claim was full
	due      []Time // when known messages come due, ascending
	nextLook Time   // for what has come due
	again    Time   // when every lane is read from its beginning
	reopen   []*line

	full      bool // there is no room for a claim
	fullSince Time
	weight    int // average of a message, estimated
	ahead     ahead

	release  attempts
	parkedAt Time // the next count
	parked   bool // a limit for parked messages is reached
}

// reads reports whether a lane is being read.
func (r *read) reads(lane int) bool {
	return r.phase == claiming && slices.ContainsFunc(r.cmd.Lanes, func(l Lane) bool { return l.Number == lane })
}

// readAhead returns the maximum number of messages held.
func (c *Core) readAhead() int {
	return max(c.cfg.BatchSize, min(heldBatches*c.cfg.BatchSize, maxHeld))
}

// claim continues reading, if nothing is being read and there is room.
func (c *Core) claim() {
	r := &c.read
	switch more := r.news || c.passed(); {
	case r.phase == resting && (more || c.stopping):
		r.phase = reading
	case r.phase == resting && !c.before(r.tries.until):
		c.await()
	case more:
		c.endAwait()
	}
	if r.phase != reading || c.before(r.tries.until) || c.stopping {
		return
	}
	if !c.safe() {
		r.tries.ok = c.now
		return
	}
	if c.lookAhead() {
		return
	}
	limit, bytes := c.space(c.readAhead(), maxHeldBytes)
	if limit == 0 {
		r.tries.ok = c.now
		c.relieve()
		return
	}
	if !r.busy {
		limit = max(1, limit/2) // look for what is behind a backlog before reading much of it
	}
	r.full, r.news, r.began = false, false, c.now
	r.tries.begin(c.now)
	look := c.looksForDue()
	r.cmd = Claim{Limit: limit, Bytes: bytes, Due: look || !r.busy, Paused: c.pausedNow()}
	if look {
		r.phase = releasing
		r.release.begin(c.now)
		c.do(Release{c.cfg.BatchSize})
		return
	}
	c.count()
}

// quarter returns how many messages a claim adds: a quarter of what may be held, so that claims are
// large, and the next is made while messages are sent and settled.
func (c *Core) quarter() int { return max(1, c.readAhead()/4) }

// space returns how many messages, and bytes of payload, a claim may add within the given limits;
// none if there is no room for a whole claim.
func (c *Core) space(most, mostBytes int) (limit, bytes int) {
	count, size := c.held.count-c.held.deferred-c.asideMessages(), c.held.bytes
	if count+c.quarter() > most || size+maxHeldBytes/4 > mostBytes {
		return 0, 0
	}
	return max(1, min(c.quarter(), (mostBytes-size)/c.read.weight)), mostBytes - size
}

// looksForDue reports whether to look for scheduled and waiting messages: at each poll, and when a
// known one has come due.
func (c *Core) looksForDue() bool {
	r := &c.read
	if !c.passed() {
		return false
	}
	r.due = slices.DeleteFunc(r.due, func(t Time) bool { return t <= c.now })
	r.nextLook = c.now + c.cfg.PollInterval
	return true
}

// passed reports whether a known message has come due.
func (c *Core) passed() bool {
	r := &c.read
	return !c.before(r.nextLook) || len(r.due) > 0 && !c.before(r.due[0])
}

// expect records that a message is due after a time from now.
func (c *Core) expect(after time.Duration) {
	t := (c.now + after).Truncate(dueTick) + dueTick
	if at, known := slices.BinarySearch(c.read.due, t); !known {
		c.read.due = slices.Insert(c.read.due, at, t)
	}
}

// pausedNow returns the destinations whose waiting messages are not claimed.
func (c *Core) pausedNow() (names []string) {
	for _, d := range c.dests {
		if d.main.paused(c.now) > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// apply continues with the claim. If a release fails the claim is made without it: the others must not
// wait for one message that cannot be released.
func (e Released) apply(c *Core) {
	if e.Err == nil {
		c.read.release.succeed(c.now)
	} else {
		c.read.release.fail(c.now, e.Err, 0, 0)
		c.report(Report{What: ReleaseFails, Err: fmt.Errorf("release scheduled messages: %w", e.Err)})
	}
	if e.Count >= c.cfg.BatchSize {
		c.read.nextLook = 0 // there may be more
	}
	c.count()
}

// count counts parked messages, if a policy parks and a count is due.
func (c *Core) count() {
	if c.cfg.parks() && c.now >= c.read.parkedAt {
		c.read.phase = counting
		c.do(Count{c.lease.list()})
		return
	}
	c.readLanes()
}

// parks reports whether any topic may have parked keys.
func (c *Config) parks() bool {
	return c.Order == Park || slices.Contains(slices.Collect(maps.Values(c.TopicOrder)), Park)
}

func (e Counted) apply(c *Core) {
	r := &c.read
	if e.Err != nil {
		c.readFailed(fmt.Errorf("count parked messages: %w", e.Err))
		return
	}
	r.parkedAt = c.now + max(parkedInterval, parkedShare*e.Took)
	over := c.cfg.overParked(e.Keys, e.Messages)
	changed := (over != nil) != r.parked
	r.parked = over != nil
	c.stats.ParkedKeys, c.stats.Parked = e.Keys, e.Messages
	if changed {
		c.report(Report{What: BackPressure, Count: e.Messages, Err: over})
	}
	c.readLanes()
}

// overParked returns which limit is reached, nil if none is.
func (c *Config) overParked(keys, messages int) error {
	switch {
	case messages >= c.MaxParked:
		return fmt.Errorf("%d messages are parked behind dead letters, the limit is %d; nothing new is claimed", messages, c.MaxParked)
	case keys >= c.MaxParkedKeys:
		return fmt.Errorf("%d keys are parked behind dead letters, the limit is %d; nothing new is claimed", keys, c.MaxParkedKeys)
	}
	return nil
}

// readable returns the lanes to read that accept returns true for, without leaving ones. One that was
// reacquired under a new epoch is left out while messages of the old one are in flight: a claim would
// leave those out, and find what is behind them.
func (c *Core) readable(accept func(*laneState) bool) (lanes []Lane) {
	older := c.lanesHeld()
	for _, st := range c.lease.lanes {
		if !st.leaving && !older[st.Number] && accept(st) {
			lanes = append(lanes, st.Lane)
		}
	}
	return lanes
}

// readLanes claims from the lanes.
func (c *Core) readLanes() {
	r := &c.read
	all := c.now >= r.again
	if all {
		r.again = c.now + againInterval
	}
	r.cmd.Lanes = c.readable(func(st *laneState) bool {
		if st.again || all {
			r.cmd.Again = append(r.cmd.Again, st.Number)
			st.again = false
		}
		return true
	})
	if len(r.cmd.Lanes) == 0 {
		c.readDone(false)
		return
	}
	r.phase = claiming
	r.cmd.DueOnly = r.parked
	r.cmd.Held, r.cmd.HeldFor = c.claimed()
	c.do(r.cmd)
}

func (e Claimed) apply(c *Core) {
	if ready := c.takeAll(e.Messages, c.now-c.read.began); e.Full && !ready {
		c.read.nextLook = 0 // more messages are due than were read
	}
	c.endClaim()
	c.readDone(e.Full)
}

// takeAll adds the messages of a claim, and reports whether any of them never waited.
func (c *Core) takeAll(messages []Message, took time.Duration) (ready bool) {
	if len(messages) > 0 {
		c.report(Report{What: Claims, Count: len(messages), Took: took})
		c.weigh(messages)
	}
	for _, m := range byPosition(messages) {
		ready = ready || !m.Waiting
		c.takeIn(m)
	}
	for _, d := range c.dests {
		for _, q := range d.queues {
			c.trim(q)
		}
	}
	return ready
}

// byPosition returns the messages in the order in which they were enqueued.
func byPosition(messages []Message) []*Message {
	list := make([]*Message, len(messages))
	for i := range messages {
		list[i] = &messages[i]
	}
	order := func(a, b *Message) int { return cmp.Compare(a.Position, b.Position) }
	if !slices.IsSortedFunc(list, order) {
		slices.SortStableFunc(list, order)
	}
	return list
}

// weigh updates the estimated size of a message in memory. Large ones have an effect for a while.
func (c *Core) weigh(messages []Message) {
	sum := 0
	for i := range messages {
		sum += messages[i].Size
	}
	c.read.weight = max(sum/len(messages), c.read.weight/2)
}

// endClaim opens lines of which an outcome was stored during the claim, which may not have seen it.
func (c *Core) endClaim() {
	c.read.phase = reading
	for _, l := range c.read.reopen {
		l.behind--
		c.tidy(l)
	}
	c.read.reopen = c.read.reopen[:0]
}

func (e ClaimFailed) apply(c *Core) {
	for _, n := range c.read.cmd.Again {
		if st := c.lease.state(n); st != nil {
			st.again = true
		}
	}
	c.read.weight = min(2*c.read.weight, maxHeldBytes) // it may have been too much
	c.endClaim()
	c.readFailed(e.Err)
}

// readDone ends a claim that has succeeded. If it was full the next one follows at once; else everything
// was read, and the relay waits until there may be something to claim, or something comes due.
func (c *Core) readDone(full bool) {
	r := &c.read
	r.tries.succeed(c.now)
	r.busy, r.phase = full, reading
	if full {
		return
	}
	r.phase = resting
	r.little = max(r.little, r.began-claimBurst*claimInterval) + claimInterval
	r.tries.until = r.little
}

// await waits until there may be something to claim, or something comes due.
func (c *Core) await() {
	r := &c.read
	until := r.nextLook
	if r.parked {
		until = min(until, r.parkedAt)
	}
	r.phase = awaiting
	c.do(Await{until})
}

func (c *Core) readFailed(err error) {
	r := &c.read
	r.tries.fail(c.now, err, retryBase, retryMax)
	if r.cmd.Due {
		r.nextLook = 0 // look again at once
	}
	r.phase = reading
	c.report(Report{What: LoopFails, Topic: "claim", Err: err})
}

// endAwait ends the wait, if there is one.
func (c *Core) endAwait() {
	if c.read.phase == awaiting {
		c.read.phase = waking
		c.do(EndAwait{})
	}
}

func (e Woken) apply(c *Core) {
	r := &c.read
	if r.phase = reading; e.Err != nil {
		c.readFailed(e.Err)
		return
	}
	r.tries.ok = c.now
}

var errNoDestination = errors.New("no destination matches the message")

// takeIn adds a claimed message: to a line if it is to be sent, else to the outcomes to be stored.
func (c *Core) takeIn(m *Message) {
	if c.stopping || !c.lease.keeps(m.Lane) {
		return // another claim reads it from its beginning
	}
	m.expiresAt = c.now + m.ExpiresIn
	c.held.add(m)
	switch {
	case m.Malformed != nil:
		m.fate = permanent(waybill.ReasonMalformed, fmt.Errorf("row does not decode: %w", m.Malformed))
	case m.expired(c.now):
		m.fate = permanent(waybill.ReasonExpired, errExpired)
	case m.DelayFor > 0:
		c.settleLater(Settlement{Message: m, Outcome: Schedule})
		return
	case m.Waiting && !c.unrouted(m):
	case len(m.Routes) == 0:
		m.fate = permanent(waybill.ReasonUnroutable, errNoDestination)
		m.fate.Final = true
	case len(m.Routes) > 1, m.Waiting:
		c.settleLater(Settlement{Message: m, Outcome: Fanout, To: m.Routes})
		return
	}
	if !m.Waiting && len(m.Routes) == 1 {
		m.Dest = m.Routes[0]
	}
	c.place(m)
}

// unrouted reports whether a waiting row has no destination yet: its message was dead-lettered before it was
// routed, and then requeued.
func (c *Core) unrouted(m *Message) bool { return m.Dest == "" && c.byName[""] == nil }

// place adds a message to the line of its unit, or moves it to the waiting rows behind an earlier one of
// its key that waits there. One that is not to be sent gets its outcome at once if no held message comes
// before it, else in its turn: while an earlier one of its unit may still have to wait, no outcome of a
// later one may be stored.
func (c *Core) place(m *Message) {
	d := c.byName[m.Dest]
	switch {
	case m.fate.Err != nil:
	case d == nil:
		err := fmt.Errorf("destination %q is not configured", m.Dest)
		m.fate = Result{Err: waybill.RetryAfter(time.Minute, err), Kind: waybill.Unavailable, After: time.Minute}
	case m.RouteErr != nil:
		m.fate = Result{Err: m.RouteErr, Kind: waybill.KindOf(m.RouteErr)}
	}
	if d == nil {
		c.conclude(m, m.fate, 0)
		return
	}
	l := c.line(unitOf(m), d)
	switch {
	case m.fate.Err != nil && (m.Key == "" || l.precedes(m)):
		c.conclude(m, m.fate, 0)
	case l.behind > 0, m.Blocked && !l.joinedBy(m):
		c.settleBehind(m)
	default:
		l.insert(m)
	}
	c.tidy(l)
}
