package recording

import (
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// The kinds of records: a restart, and steps by their events.
const (
	kindRestart = iota
	kindLeased
	kindLeaseFailed
	kindClaimed
	kindClaimFailed
	kindReleased
	kindCounted
	kindWoken
	kindAnswered
	kindSettled
	kindSettleFailed
	kindTick
	kindStop
	kindClaimedAhead
)

func kindOf(e relaycore.Event) uint64 {
	switch e.(type) {
	case relaycore.Leased:
		return kindLeased
	case relaycore.LeaseFailed:
		return kindLeaseFailed
	case relaycore.Claimed:
		return kindClaimed
	case relaycore.ClaimFailed:
		return kindClaimFailed
	case relaycore.Released:
		return kindReleased
	case relaycore.Counted:
		return kindCounted
	case relaycore.Woken:
		return kindWoken
	case relaycore.Answered:
		return kindAnswered
	case relaycore.Settled:
		return kindSettled
	case relaycore.SettleFailed:
		return kindSettleFailed
	case relaycore.Tick:
		return kindTick
	case relaycore.ClaimedAhead:
		return kindClaimedAhead
	}
	return kindStop
}

// batches numbers the batches in flight, in the order in which they were sent.
type batches struct {
	numbers map[*relaycore.Batch]uint64
	next    uint64
}

func newBatches() batches { return batches{numbers: make(map[*relaycore.Batch]uint64), next: 1} }

// add gives a batch its number.
func (b *batches) add(batch *relaycore.Batch) {
	b.numbers[batch] = b.next
	b.next++
}

// done forgets a batch that was answered.
func (b *batches) done(e relaycore.Event) {
	if a, ok := e.(relaycore.Answered); ok {
		delete(b.numbers, a.Batch)
	}
}

// find returns the batch of a number, nil if there is none in flight.
func (b *batches) find(number uint64) *relaycore.Batch {
	for batch, n := range b.numbers {
		if n == number {
			return batch
		}
	}
	return nil
}

// event codes an event of a kind. When reading it returns the event.
func (c *coder) event(kind uint64, e relaycore.Event, in *batches) relaycore.Event {
	switch kind {
	case kindLeased:
		return coded(c, e, (*coder).leased)
	case kindLeaseFailed:
		return coded(c, e, func(c *coder, e *relaycore.LeaseFailed) { c.flags(&e.Lost); c.failure(&e.Err) })
	case kindClaimed:
		return coded(c, e, (*coder).claimed)
	case kindClaimFailed:
		return coded(c, e, func(c *coder, e *relaycore.ClaimFailed) { c.failure(&e.Err) })
	case kindReleased:
		return coded(c, e, func(c *coder, e *relaycore.Released) { number(c, &e.Count); c.failure(&e.Err) })
	case kindCounted:
		return coded(c, e, (*coder).counted)
	case kindWoken:
		return coded(c, e, func(c *coder, e *relaycore.Woken) { c.failure(&e.Err) })
	case kindAnswered:
		return coded(c, e, func(c *coder, e *relaycore.Answered) { c.answered(e, in) })
	case kindSettled:
		return coded(c, e, (*coder).settled)
	case kindSettleFailed:
		return coded(c, e, func(c *coder, e *relaycore.SettleFailed) { c.flags(&e.Refused); c.failure(&e.Err) })
	case kindTick:
		return relaycore.Tick{}
	case kindStop:
		return relaycore.Stop{}
	case kindClaimedAhead:
		return coded(c, e, (*coder).claimedAhead)
	}
	c.failf("there is no record of kind %d", kind)
	return relaycore.Tick{}
}

// coded codes an event by the function for its fields.
func coded[E relaycore.Event](c *coder, e relaycore.Event, fields func(*coder, *E)) relaycore.Event {
	var v E
	if !c.reading {
		v = e.(E)
		fields(c, &v)
		return e
	}
	fields(c, &v)
	return v
}

func (c *coder) lane(l *relaycore.Lane) {
	number(c, &l.Number)
	number(c, &l.Epoch)
}

func (c *coder) leased(e *relaycore.Leased) {
	list(c, &e.Lanes, (*coder).lane)
	number(c, &e.Share)
	number(c, &e.Total)
}

func (c *coder) counted(e *relaycore.Counted) {
	number(c, &e.Keys)
	number(c, &e.Messages)
	number(c, &e.Took)
	c.failure(&e.Err)
}

func (c *coder) settled(e *relaycore.Settled) {
	list(c, &e.Lost, func(c *coder, n *int) { number(c, n) })
	number(c, &e.Took)
}

func (c *coder) claimed(e *relaycore.Claimed) {
	c.flags(&e.Full)
	c.messages(&e.Messages)
}

func (c *coder) claimedAhead(e *relaycore.ClaimedAhead) {
	c.messages(&e.Messages)
	number(c, &e.Reached)
	c.failure(&e.Err)
}

func (c *coder) messages(of *[]relaycore.Message) {
	c.before = relaycore.Message{}
	list(c, of, (*coder).message)
	c.before = relaycore.Message{}
}

// The flags of a message. Most fields are seldom set, or the same as in the previous message.
const (
	isWaiting = 1 << iota
	isBlocked
	isExpired
	hasAttempts
	hasTimes
	isMalformed
	isMisrouted
	sameDest
	sameTopic
	sameTenant
	sameRoutes
	hasUUID
)

// message codes the fields of a message that the shell sets.
func (c *coder) message(m *relaycore.Message) {
	var raw [16]byte
	var bits uint64
	if !c.reading {
		bits = c.bits(m)
		if packUUID(&raw, m.ID) {
			bits |= hasUUID
		}
	}
	c.uint(&bits)
	m.Waiting, m.Blocked, m.Expired = bits&isWaiting != 0, bits&isBlocked != 0, bits&isExpired != 0
	number(c, &m.Position)
	c.lane(&m.Lane)
	number(c, &m.Size)
	if bits&hasUUID != 0 {
		c.uuid(&raw, &m.ID)
	} else {
		c.text(&m.ID)
	}
	c.text(&m.Key)
	c.repeated(bits&sameDest, &m.Dest, &c.before.Dest)
	c.repeated(bits&sameTopic, &m.Topic, &c.before.Topic)
	c.repeated(bits&sameTenant, &m.Tenant, &c.before.Tenant)
	if bits&sameRoutes == 0 {
		list(c, &m.Routes, (*coder).name)
	} else {
		m.Routes = c.before.Routes
	}
	c.before.Routes = m.Routes
	if bits&hasAttempts != 0 {
		number(c, &m.Attempts)
		number(c, &m.Life)
	}
	if bits&hasTimes != 0 {
		number(c, &m.ExpiresIn)
		number(c, &m.DelayFor)
	}
	if bits&isMalformed != 0 {
		c.failure(&m.Malformed)
	}
	if bits&isMisrouted != 0 {
		c.failure(&m.RouteErr)
	}
}

// bits returns the flags of a message to be written.
func (c *coder) bits(m *relaycore.Message) (bits uint64) {
	set := func(bit uint64, yes bool) {
		if yes {
			bits |= bit
		}
	}
	set(isWaiting, m.Waiting)
	set(isBlocked, m.Blocked)
	set(isExpired, m.Expired)
	set(hasAttempts, m.Attempts != 0 || m.Life != 0)
	set(hasTimes, m.ExpiresIn != 0 || m.DelayFor != 0)
	set(isMalformed, m.Malformed != nil)
	set(isMisrouted, m.RouteErr != nil)
	set(sameDest, m.Dest == c.before.Dest)
	set(sameTopic, m.Topic == c.before.Topic)
	set(sameTenant, m.Tenant == c.before.Tenant)
	set(sameRoutes, slices.Equal(m.Routes, c.before.Routes))
	return bits
}

// repeated codes a string that is often the same as in the previous message.
func (c *coder) repeated(same uint64, s, before *string) {
	if same != 0 {
		*s = *before
		return
	}
	c.name(s)
	*before = *s
}

func (c *coder) answered(e *relaycore.Answered, in *batches) {
	n := in.numbers[e.Batch]
	c.uint(&n)
	if c.reading {
		if e.Batch = in.find(n); e.Batch == nil {
			c.failf("batch %d is answered and not in flight", n)
			return
		}
	}
	number(c, &e.Window)
	some := e.Results != nil
	if c.flags(&some); !some {
		return
	}
	list(c, &e.Results, (*coder).result)
	if len(e.Results) != len(e.Batch.Messages) {
		c.failf("batch %d has %d messages and %d results", n, len(e.Batch.Messages), len(e.Results))
	}
}

func (c *coder) result(r *relaycore.Result) {
	failed, follows, reason := r.Err != nil, len(r.Followers) > 0, string(r.Reason)
	c.flags(&failed, &follows, &r.Lost, &r.Unsure, &r.Swallowed, &r.Final)
	if follows {
		list(c, &r.Followers, (*coder).name)
	}
	if !failed {
		return
	}
	number(c, &r.Kind)
	c.name(&reason)
	number(c, &r.After)
	if c.reading {
		r.Reason = waybill.Reason(reason)
		r.Err = errorOf(1 + uint64(r.Kind))
	}
}
