package storetest

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// node is a relay as the store sees it.
type node[Tx any] struct {
	*env[Tx]
	name  string
	lease contract.Lease
}

// patiently repeats a call of a relay for as long as the store is unavailable, as relays do:
// PostgreSQL ends a relay's transaction that was idle for two seconds on a busy machine.
func (e *env[Tx]) patiently(call func() error) error {
	for {
		if err := call(); !waybill.IsUnavailable(err) || e.ctx.Err() != nil {
			return err
		}
	}
}

// join registers a relay for longer than any test advances the clock, except on purpose.
func (e *env[Tx]) join(name string) *node[Tx] {
	e.Helper()
	n := &node[Tx]{env: e, name: name}
	e.must(n.renew(contract.LeaseRequest{Join: true, TTL: longTTL}), "join")
	return n
}

func (n *node[Tx]) renew(req contract.LeaseRequest) error {
	n.Helper()
	req.Node = n.name
	if req.TTL == 0 {
		req.TTL = longTTL
	}
	return n.patiently(func() error {
		lease, err := n.s.RenewLanes(n.ctx, req)
		if err == nil {
			n.lease = lease
		}
		return err
	})
}

// claim returns everything that may be sent now, also what was claimed before.
func (n *node[Tx]) claim() []contract.Claim {
	n.Helper()
	return n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, Again: numbers(n.lease.Lanes)})
}

func (n *node[Tx]) claimWith(req contract.ClaimRequest) []contract.Claim {
	n.Helper()
	var claims []contract.Claim
	n.must(n.patiently(func() (err error) {
		claims, err = n.s.ClaimMessages(n.ctx, req)
		return err
	}), "ClaimMessages")
	if claims == nil {
		n.Fatal("ClaimMessages returned nil, want an empty slice")
	}
	return claims
}

// claimOnly claims and checks that exactly the given messages are returned, those of one key in the
// given order.
func (n *node[Tx]) claimOnly(want ...string) []contract.Claim {
	n.Helper()
	claims := n.claim()
	got := claimedIDs(claims)
	a, b := slices.Clone(got), slices.Clone(want)
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		n.Fatalf("claimed %v, want %v", got, want)
	}
	for _, key := range keysOf(claims) {
		ofKey := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return find(claims, id).Message.Key != key })
		wanted := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return find(claims, id).Message.Key != key })
		if !slices.Equal(ofKey, wanted) {
			n.Fatalf("claimed of key %q %v, want the order %v", key, ofKey, wanted)
		}
	}
	return claims
}

// claimOne claims and expects a single message.
func (n *node[Tx]) claimOne(id string) contract.Claim {
	n.Helper()
	return n.claimOnly(id)[0]
}

// settle records outcomes, with an archive, and expects to own the lanes.
func (n *node[Tx]) settle(list ...contract.Settlement) {
	n.Helper()
	if lost := n.settleWith(true, list...); len(lost) > 0 {
		n.Fatalf("SettleMessages: lost lanes %v, want none", lost)
	}
}

func (n *node[Tx]) settleWith(archive bool, list ...contract.Settlement) []int {
	n.Helper()
	var lost []int
	n.must(n.patiently(func() (err error) {
		lost, err = n.s.SettleMessages(n.ctx, contract.SettleRequest{Node: n.name, Archive: archive, Settlements: list})
		return err
	}), "SettleMessages")
	return lost
}

// publishAll settles everything that may be sent now as published, until nothing is left.
func (n *node[Tx]) publishAll() []string {
	n.Helper()
	var all []string
	for {
		claims := n.claim()
		if len(claims) == 0 {
			return all
		}
		all = append(all, claimedIDs(claims)...)
		n.settle(published(claims...)...)
	}
}

func claimedIDs(claims []contract.Claim) []string {
	all := make([]string, len(claims))
	for i := range claims {
		all[i] = claims[i].Message.ID
	}
	return all
}

func keysOf(claims []contract.Claim) []string {
	var keys []string
	for i := range claims {
		if k := claims[i].Message.Key; k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// find returns the claim of the message with the given id, or the zero value.
func find(claims []contract.Claim, id string) contract.Claim {
	i := slices.IndexFunc(claims, func(c contract.Claim) bool { return c.Message.ID == id })
	if i < 0 {
		return contract.Claim{}
	}
	return claims[i]
}

// settlement is the outcome of a claim whose attempts and life stay as they are.
func settlement(c contract.Claim, outcome contract.Outcome) contract.Settlement {
	return contract.Settlement{Claim: &c, Outcome: outcome, Attempts: c.Attempts, Life: c.Life}
}

func published(claims ...contract.Claim) []contract.Settlement {
	list := make([]contract.Settlement, len(claims))
	for i := range claims {
		list[i] = settlement(claims[i], contract.Published)
	}
	return list
}

// failed is a failed attempt, to be repeated after a while.
func failed(c contract.Claim, after time.Duration) contract.Settlement {
	st := settlement(c, contract.Wait)
	st.After, st.Error = after, "broker said no"
	st.Attempts++
	return st
}

func behind(c contract.Claim) contract.Settlement {
	st := settlement(c, contract.Wait)
	st.Behind = true
	return st
}

func dead(c contract.Claim) contract.Settlement {
	st := settlement(c, contract.Dead)
	st.Reason, st.Error = waybill.ReasonRejected, "broker said never"
	st.Attempts++
	return st
}

// to sends a claim to a destination, as a relay with several does before it settles.
func to(c contract.Claim, destination string) contract.Claim {
	c.Destination = destination
	return c
}

func fanout(c contract.Claim, destinations ...string) contract.Settlement {
	st := settlement(c, contract.Fanout)
	st.Destinations = destinations
	return st
}

// publishedThen is a published message that followers get afterwards.
func publishedThen(c contract.Claim, followers ...string) contract.Settlement {
	st := settlement(c, contract.Published)
	st.Destinations = followers
	return st
}
