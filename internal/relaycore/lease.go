package relaycore

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// lease is the state of the relay's lease of lanes. A lane is leaving while the relay owns more
// than its share; it is released when nothing of it is in flight.
type lease struct {
	lanes    []*laneState // by number
	until    Time         // the lease is valid until then
	joined   bool
	total    int  // number of lanes
	shared   bool // there are other relays
	renewing bool
	asked    Time // the renewal that is running
	tries    attempts
}

type laneState struct {
	Lane
	leaving bool
	again   bool // to be read from its beginning
}

func (s *lease) state(number int) *laneState {
	i, ok := slices.BinarySearchFunc(s.lanes, number, func(l *laneState, n int) int { return cmp.Compare(l.Number, n) })
	if !ok {
		return nil
	}
	return s.lanes[i]
}

// owns reports whether a lane is owned under the same epoch.
func (s *lease) owns(l Lane) bool {
	st := s.state(l.Number)
	return st != nil && st.Lane == l
}

// keeps reports whether what was claimed of a lane may be kept, and more added. It may not if the lane was
// lost, is leaving, or has been leaving since it was last read from its beginning: held messages of it were
// released, and must not be overtaken.
func (s *lease) keeps(l Lane) bool {
	st := s.state(l.Number)
	return st != nil && st.Lane == l && !st.leaving && !st.again
}

// list returns the lanes.
func (s *lease) list() []Lane {
	list := make([]Lane, len(s.lanes))
	for i, st := range s.lanes {
		list[i] = st.Lane
	}
	return list
}

// take sets the lanes that the relay owns now. Those above its share are leaving, the highest numbers first.
// It reports whether the lanes, or the leaving ones, have changed.
func (s *lease) take(lanes []Lane, share int) (changed bool) {
	lanes = slices.SortedFunc(slices.Values(lanes), func(a, b Lane) int { return cmp.Compare(a.Number, b.Number) })
	owned := make([]*laneState, len(lanes))
	changed = len(lanes) != len(s.lanes)
	for i, l := range lanes {
		st := s.state(l.Number)
		if st == nil || st.Lane != l {
			st, changed = &laneState{Lane: l, again: true}, true
		}
		leaving := i >= share
		changed = changed || leaving != st.leaving
		st.leaving = leaving
		st.again = st.again || leaving // what was claimed of it is released
		owned[i] = st
	}
	s.lanes = owned
	return changed
}

// renew extends the lease when that is due, unless the relay steps aside.
func (c *Core) renew() {
	s := &c.lease
	if s.renewing || c.before(s.tries.until) {
		return
	}
	if c.stepsAside() {
		s.tries.ok = c.now // stepping aside is on purpose, no failure
		s.tries.until = c.now + c.cfg.RenewInterval/2
		c.before(s.tries.until)
		return
	}
	cmd := Renew{Join: !s.joined}
	held := c.lanesHeld()
	for _, st := range s.lanes {
		if _, some := held[st.Number]; st.leaving && !some && !c.read.reads(st.Number) {
			cmd.Give = append(cmd.Give, st.Number)
		}
	}
	s.renewing, s.asked = true, c.now
	c.do(cmd)
}

func (e Leased) apply(c *Core) {
	s := &c.lease
	s.renewing, s.joined = false, true
	s.tries.succeed(c.now)
	s.until, s.total, s.shared = s.asked+c.cfg.LeaseTTL, e.Total, e.Share < e.Total
	if s.take(e.Lanes, e.Share) {
		c.lanesChanged()
		c.report(Report{What: LanesChanged, Count: len(s.lanes)})
	}
	wait := c.cfg.RenewInterval
	if len(s.lanes) != e.Share { // some leave, or others may become free
		wait = min(wait, max(wait/8, 50*time.Millisecond))
	}
	s.tries.until = s.asked + wait
}

func (e LeaseFailed) apply(c *Core) {
	s := &c.lease
	s.renewing = false
	if e.Lost {
		s.lanes, s.joined, s.until = nil, false, 0
		s.tries.succeed(c.now) // join again at once
		c.lanesChanged()
		c.report(Report{What: LeaseLost, Err: e.Err})
		return
	}
	s.tries.fail(c.now, e.Err, retryBase, retryMax)
	c.report(Report{What: LoopFails, Topic: "lease", Err: e.Err})
}

const (
	retryBase = 50 * time.Millisecond
	retryMax  = 5 * time.Second
)

// lanesChanged releases what belongs to lost and leaving lanes, and looks for messages of new ones.
func (c *Core) lanesChanged() {
	c.drop(func(l Lane) bool { return !c.lease.keeps(l) })
	part := float64(max(1, len(c.lease.lanes))) / float64(max(1, c.lease.total))
	for _, d := range c.dests {
		d.pace.set(d.Rate*part, c.now)
	}
	c.read.nextLook, c.read.ahead.above = 0, 0
	c.read.news = true
}

// aside decides when a relay that makes no progress lets its lease expire, so that others take its
// lanes, and when it tries again.
type aside struct {
	on       bool
	until    Time // the lease is not renewed before
	failures int  // of destinations when the grace period began; -1 before
}

// cutOffLeases is the number of LeaseTTLs without an answer of any destination before other relays are to try.
const cutOffLeases = 3

// stepsAside reports whether the lease is to expire. A relay that is the only one keeps its lease. The
// pause lasts until others have had the time to see that the lease has expired; after it the relay has
// a grace period to make progress.
func (c *Core) stepsAside() bool {
	a, why := &c.aside, c.stuck(c.now)
	rest, grace := c.cfg.LeaseTTL+2*c.cfg.RenewInterval, c.cfg.CallTimeout
	switch {
	case why == nil || !c.lease.shared:
		*a = aside{}
		return false
	case a.on && c.now < a.until:
		return true
	case a.on && c.now < a.until+grace:
		c.probe()
		return false
	case a.on && !c.read.tries.trying && a.failures == c.failures(): // there was nothing to send
		for _, d := range c.routed() {
			d.main.succeed(c.now)
		}
		*a = aside{}
		return false
	}
	*a = aside{on: true, until: c.now + rest, failures: -1}
	c.report(Report{What: StepsAside, Err: fmt.Errorf("let the lease run out, for other relays to take the lanes: %w", why)})
	return true
}

// stuck returns why the relay makes no progress, if that has lasted too long.
func (c *Core) stuck(now Time) error {
	if age := c.read.tries.age(now); age > c.cfg.CallTimeout {
		return &Stalled{Loop: "claim", Age: age, Err: c.read.tries.err}
	}
	if age := c.cutOff(now); age > cutOffLeases*c.cfg.LeaseTTL && c.lease.shared {
		return fmt.Errorf("none of its destinations has answered for %v", age.Truncate(time.Second))
	}
	return nil
}

// routed returns the destinations without the followers.
func (c *Core) routed() []*dest { return c.dests[:len(c.cfg.Dests)] }

// cutOff returns how long every destination has been paused, 0 if one of them is not.
func (c *Core) cutOff(now Time) time.Duration {
	var latest Time
	for _, d := range c.routed() {
		if !d.main.probing() {
			return 0
		}
		latest = max(latest, d.main.since)
	}
	return now - latest
}

// failures returns how often destinations have been paused since their last answers.
func (c *Core) failures() (n int) {
	for _, d := range c.routed() {
		n += d.main.failures
	}
	return n
}

// probe ends the pauses of destinations, so that they are tried in the grace period.
func (c *Core) probe() {
	if c.aside.failures < 0 {
		c.aside.failures = c.failures()
	}
	for _, d := range c.routed() {
		d.main.until = 0
	}
}
