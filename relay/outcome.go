package relay

import (
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// unit is what order is kept by: a key of a topic, per destination.
type unit struct{ destination, topic, key string }

func unitOf(c *Claim) unit {
	return unit{c.Destination, c.Message.Address(), c.Message.Key}
}

// policy turns results into settlements. It does no I/O.
type policy struct {
	retry     waybill.RetryPolicy
	failed    bool     // dead letters are disabled
	followers []string // destinations that get what is published
	follows   func(name string, m *waybill.Message) bool
}

// result is what sending, or looking at, a message came to.
type result struct {
	claim *Claim
	err   error
}

// settle returns the settlement of a result, or false if the message stays where it is
// because the destination is unavailable.
func (p *policy) settle(r result) (Settlement, bool) {
	st := Settlement{Claim: r.claim, Attempts: r.claim.Attempts, Life: r.claim.Life, Error: waybill.ErrorText(r.err)}
	switch kind := waybill.KindOf(r.err); {
	case r.err == nil:
		st.Outcome, st.Destinations = Published, p.followersOf(r.claim)
		return st, true
	case errors.Is(r.err, waybill.ErrSwallowed):
		st.Outcome, st.Life = Wait, r.claim.Life+1
		return st, true
	case kind == waybill.Unavailable:
		st.Outcome = Wait
		after, ok := waybill.AfterOf(r.err)
		st.After = after
		return st, ok
	case kind == waybill.Conflict:
		st.Outcome, st.After = Wait, p.retry.Delay(1)
		return st, true
	case kind == waybill.Permanent:
		st.Attempts++
		return p.giveUp(st, waybill.ReasonOf(r.err)), true
	}
	st.Attempts++
	if p.retry.Exhausted(st.Attempts) {
		return p.giveUp(st, waybill.ReasonExhausted), true
	}
	st.Outcome, st.After = Wait, p.retry.Delay(st.Attempts)
	return st, true
}

func (p *policy) giveUp(st Settlement, reason waybill.Reason) Settlement {
	st.Outcome, st.Reason = Dead, reason
	if p.failed {
		st.Outcome = Failed
	}
	return st
}

func (p *policy) followersOf(c *Claim) []string {
	var names []string
	for _, name := range p.followers {
		if c.Destination != name && p.follows(name, &c.Message) {
			names = append(names, name)
		}
	}
	return names
}

// behind is the settlement of a message whose key is blocked by an earlier one.
func behind(c *Claim) Settlement {
	return Settlement{Claim: c, Outcome: Wait, Behind: true, Attempts: c.Attempts, Life: c.Life}
}

// later is the settlement of a message that may go after a while, its attempts unchanged.
func later(c *Claim, after time.Duration, why string) Settlement {
	return Settlement{Claim: c, Outcome: Wait, After: after, Attempts: c.Attempts, Life: c.Life, Error: why}
}
