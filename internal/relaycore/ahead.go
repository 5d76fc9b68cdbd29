package relaycore

import (
	"fmt"
	"slices"
	"time"
)

// Looking ahead. Claims read in the order of positions. If one tenant has a large backlog its messages
// fill the memory, and later messages of other tenants are not seen, so that tenants cannot be served
// round robin. A relay that is behind therefore reads past the tenants of which it holds enough, from
// where it stopped last. It spends little time on that, and a part of the memory is reserved for it.

const (
	aheadSpan     = 50_000 // positions that one look reads
	aheadInterval = 100 * time.Millisecond
	aheadShare    = 50 // looks take no more than this fraction of the time
)

// ahead is the state of looking ahead.
type ahead struct {
	next    Time // no look before
	began   Time
	above   int64    // positions up to this one were read
	without []string // tenants left out by the latest look
}

// lookAhead reads past the tenants of which enough is held, and reports whether it did.
func (c *Core) lookAhead() bool {
	r, a := &c.read, &c.read.ahead
	if !c.cfg.Ahead || !r.busy || r.parked || c.before(a.next) {
		return false
	}
	a.next = c.now + claimInterval
	without := c.plenty()
	lanes := c.readable(func(st *laneState) bool { return !st.again })
	limit, bytes := c.space(c.readAhead()+c.quarter(), maxHeldBytes*5/4)
	if len(without) == 0 || len(lanes) == 0 || limit == 0 {
		c.before(a.next)
		return false
	}
	if slices.ContainsFunc(a.without, func(t string) bool { return !slices.Contains(without, t) }) {
		a.above = 0 // there may be more of that tenant in what was skipped
	}
	a.without, a.began = without, c.now
	r.phase, r.cmd = claiming, Claim{Lanes: lanes}
	held, _ := c.claimed()
	c.do(ClaimAhead{Lanes: lanes, Without: without, Above: a.above, Span: aheadSpan, Limit: limit, Bytes: bytes, Held: held})
	return true
}

// plenty returns the tenants of which at least half a batch is to be sent or in flight: the first claim, which
// does not yet know the size of messages, returns no more.
func (c *Core) plenty() (names []string) {
	count := make(map[string]int)
	for _, d := range c.dests {
		for _, q := range d.queues {
			for _, t := range q.tenants {
				count[t.name] += t.total
			}
		}
		for _, b := range d.batches {
			for _, m := range b.Messages {
				count[m.Tenant]++
			}
		}
	}
	for name, n := range count {
		if 2*n >= c.cfg.BatchSize {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// apply adds what a look has found. A look that fails is repeated much later: claims continue.
func (e ClaimedAhead) apply(c *Core) {
	a := &c.read.ahead
	took := c.now - a.began
	a.next = c.now + max(aheadInterval, aheadShare*took)
	if e.Err != nil {
		c.report(Report{What: LoopFails, Topic: "claim", Err: fmt.Errorf("look ahead: %w", e.Err)})
	} else {
		a.above = e.Reached
	}
	c.takeAll(e.Messages, took)
	c.endClaim()
}
