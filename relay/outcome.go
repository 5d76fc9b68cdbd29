package relay

import (
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// policy turns results into settlements. It does no I/O.
type policy struct {
	retry     waybill.RetryPolicy
	failed    bool // dead letters are disabled
	order     func(topic string) OrderPolicy
	followers []string // destinations that get what is published
	follows   func(name string, m *waybill.Message) bool
}

// result is what sending, or looking at, a message came to.
type result struct {
	claim *Claim
	err   error
	took  time.Duration
	sent  bool // the error is that of the destination
}

// unroutable reports whether the destination has said that the message would reach nobody. That
// is more often the state of the topology, in which the consumer is yet to be declared, than a fault
// of the message.
func (r result) unroutable() bool {
	return r.sent && waybill.IsPermanent(r.err) && waybill.ReasonOf(r.err) == waybill.ReasonUnroutable
}

// settle returns the settlement of a result, or false if the message stays where it is
// because the destination is unavailable.
func (p *policy) settle(r result) (Settlement, bool) {
	st := Settlement{
		Claim: r.claim, Attempts: r.claim.Attempts, Life: r.claim.Life, Error: waybill.ErrorText(r.err), Took: r.took, cause: r.err,
	}
	switch kind := waybill.KindOf(r.err); {
	case r.err == nil:
		st.Outcome, st.Destinations = Published, p.followersOf(r.claim)
		return st, true
	case errors.Is(r.err, waybill.ErrSwallowed):
		st.Life++
		return p.wait(st, 0), true
	case kind == waybill.Unavailable:
		after, ok := waybill.AfterOf(r.err)
		return p.wait(st, after), ok
	case kind == waybill.Conflict:
		return p.wait(st, p.retry.Delay(1)), true
	case kind == waybill.Permanent && !r.unroutable():
		st.Attempts++
		return p.giveUp(st, waybill.ReasonOf(r.err)), true
	}
	st.Attempts++
	switch exhausted := p.retry.Exhausted(st.Attempts); {
	case exhausted && r.unroutable():
		return p.giveUp(st, waybill.ReasonUnroutable), true
	case exhausted:
		return p.giveUp(st, waybill.ReasonExhausted), true
	}
	return p.wait(st, p.retry.Delay(st.Attempts)), true
}

// wait lets a message that has failed wait for its next attempt.
func (p *policy) wait(st Settlement, after time.Duration) Settlement {
	st.Outcome, st.After = Wait, after
	st.Alone = p.orderOf(st.Claim) == Skip
	return st
}

func (p *policy) giveUp(st Settlement, reason waybill.Reason) Settlement {
	st.Outcome, st.Reason = Dead, reason
	if p.failed {
		st.Outcome = Failed
	}
	st.Park = p.orderOf(st.Claim) == Park
	return st
}

// orderOf returns the policy for a message. One without a key has no order: it waits alone
// and parks nothing as it is.
func (p *policy) orderOf(c *Claim) OrderPolicy {
	if c.Message.Key == "" {
		return Block
	}
	return p.order(c.Message.Address())
}

// followersOf returns the destinations that get a published message next: none if it was
// itself published to a follower.
func (p *policy) followersOf(c *Claim) []string {
	if slices.Contains(p.followers, c.Destination) {
		return nil
	}
	var names []string
	for _, name := range p.followers {
		if p.follows(name, &c.Message) {
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
	return Settlement{Claim: c, Outcome: Wait, After: after, Attempts: c.Attempts, Life: c.Life, Error: why, cause: waybill.UnavailableError(errors.New(why))}
}
