package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func laneTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"the first relay gets all", laneFirst[Tx], nil},
		{"two relays share evenly", laneShare[Tx](2), nil},
		{"three relays share evenly", laneShare[Tx](3), nil},
		{"a late comer receives its share", laneLateComer[Tx], nil},
		{"renewals keep lanes and epochs", laneRenew[Tx], nil},
		{"an expired lease is taken over", laneExpiry[Tx], nil},
		{"the clock is set back", laneClockSetBack[Tx], nil},
		{"an expired lease that nobody wants is extended", laneUnwanted[Tx], nil},
		{"leaving frees at once", laneLeave[Tx], nil},
		{"giving frees only what is one's own", laneGive[Tx], nil},
		{"joining twice", laneJoinTwice[Tx], nil},
		{"never joined", laneNeverJoined[Tx], nil},
		{"many relays join at once", laneRush[Tx], nil},
		{"what others own is not read", laneReadByOwner[Tx], nil},
		{"a taken lane is settled by its new owner only", laneHandOver[Tx], nil},
	}
}

func numbers(lanes []contract.Lane) []int {
	list := make([]int, len(lanes))
	for i, l := range lanes {
		list[i] = l.Number
	}
	slices.Sort(list)
	return list
}

func laneFirst[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := make([]int, e.h.Features.Lanes)
	for i := range want {
		want[i] = i
	}
	if got := numbers(n.lease.Lanes); !slices.Equal(got, want) || n.lease.Share != len(want) || n.lease.Total != len(want) {
		e.Errorf("lanes = %v, share = %d, total = %d, want all %d", got, n.lease.Share, n.lease.Total, len(want))
	}
	for _, l := range n.lease.Lanes {
		if l.Epoch < 1 {
			e.Errorf("epoch of lane %d = %d, want at least 1", l.Number, l.Epoch)
		}
	}
}

// laneReadByOwner: a relay that does not know yet that it was superseded finds nothing in the lanes that it
// had, whether waiting, new, or of another tenant.
func laneReadByOwner[Tx any](e *env[Tx]) {
	old := &node[Tx]{env: e, name: "r1"}
	e.must(old.renew(contract.LeaseRequest{Join: true, TTL: time.Minute}), "join")
	e.enqueue(msg("a1", "k"), msg("b1", ""))
	old.settle(failed(find(old.claimOnly("a1", "b1"), "a1"), 0))
	e.enqueue(msg("a2", "k"), of("small", msg("c1", "c")))
	e.advance(2 * time.Minute)
	n := e.join("r2")
	old.claimOnly()
	if claims, _ := old.claimAhead(contract.AheadRequest{}); len(claims) > 0 {
		e.Errorf("a claim ahead by the owner before found %v, want nothing", claimedIDs(claims))
	}
	n.settle(published(n.claimOnly("a1", "b1", "a2", "c1")...)...)
}

// giveSurplus releases the lanes beyond the share and renews.
func (n *node[Tx]) giveSurplus() {
	n.Helper()
	surplus := max(0, len(n.lease.Lanes)-n.lease.Share)
	n.must(n.renew(contract.LeaseRequest{Give: numbers(n.lease.Lanes)[:surplus]}), "renew")
}

// checkShared checks that every lane has exactly one owner, and returns the number of lanes of each node.
func (e *env[Tx]) checkShared(nodes []*node[Tx]) []int {
	e.Helper()
	owner := make(map[int]string)
	counts := make([]int, len(nodes))
	for i, n := range nodes {
		counts[i] = len(n.lease.Lanes)
		for _, l := range n.lease.Lanes {
			if other := owner[l.Number]; other != "" {
				e.Errorf("lane %d belongs to %s and %s", l.Number, other, n.name)
			}
			owner[l.Number] = n.name
		}
	}
	if len(owner) != e.h.Features.Lanes {
		e.Errorf("%d lanes have owners, want %d", len(owner), e.h.Features.Lanes)
	}
	return counts
}

func laneShare[Tx any](count int) func(*env[Tx]) {
	return func(e *env[Tx]) {
		var nodes []*node[Tx]
		for i := range count {
			nodes = append(nodes, e.join(fmt.Sprintf("r%d", i+1)))
		}
		for range 3 { // as renewals do in turn
			for _, n := range nodes {
				n.giveSurplus()
			}
		}
		share := (e.h.Features.Lanes + count - 1) / count
		for i, got := range e.checkShared(nodes) {
			if got > share || nodes[i].lease.Share != share {
				e.Errorf("%s owns %d lanes and receives a share of %d, want at most %d", nodes[i].name, got, nodes[i].lease.Share, share)
			}
			if low := e.h.Features.Lanes - share*(count-1); got < low {
				e.Errorf("%s owns %d lanes, want at least %d", nodes[i].name, got, low)
			}
		}
	}
}

func laneLateComer[Tx any](e *env[Tx]) {
	a := e.join("r1")
	b := e.join("r2")
	want := (e.h.Features.Lanes + 1) / 2
	if len(b.lease.Lanes) != 0 || b.lease.Share != want {
		e.Errorf("it owns %d lanes and receives a share of %d, want 0 and %d", len(b.lease.Lanes), b.lease.Share, want)
	}
	e.must(a.renew(contract.LeaseRequest{}), "renew")
	if a.lease.Share != want {
		e.Errorf("the first receives a share of %d, want %d", a.lease.Share, want)
	}
	if total := e.h.Features.Lanes; a.lease.Total != total || b.lease.Total != total {
		e.Errorf("they receive totals of %d and %d, want %d", a.lease.Total, b.lease.Total, total)
	}
}

func laneRenew[Tx any](e *env[Tx]) {
	n := e.join("r1")
	before := slices.Clone(n.lease.Lanes)
	for range 3 {
		e.advance(longTTL - time.Minute)
		e.must(n.renew(contract.LeaseRequest{}), "renew")
	}
	if !slices.Equal(n.lease.Lanes, before) {
		e.Errorf("lanes = %v after renewals, want %v", n.lease.Lanes, before)
	}
	if late := e.join("r2"); len(late.lease.Lanes) != 0 {
		e.Errorf("a late comer took %d lanes that are leased", len(late.lease.Lanes))
	}
}

func laneExpiry[Tx any](e *env[Tx]) {
	old := e.join("r1")
	n := e.join("r2")
	e.advance(longTTL - time.Minute)
	e.must(n.renew(contract.LeaseRequest{}), "renew")
	if len(n.lease.Lanes) != 0 {
		e.Fatalf("r2 owns %d lanes before r1's lease has expired", len(n.lease.Lanes))
	}
	e.advance(2 * time.Minute)
	e.must(n.renew(contract.LeaseRequest{}), "renew")
	e.wantRisen(old.lease.Lanes, n.lease.Lanes)
	if n.lease.Share != e.h.Features.Lanes {
		e.Errorf("share = %d, want all: the other is gone", n.lease.Share)
	}

	err := old.renew(contract.LeaseRequest{})
	if !errors.Is(err, waybill.ErrLeaseLost) {
		e.Fatalf("RenewLanes of the superseded = %v, want ErrLeaseLost", err)
	}
	e.must(old.renew(contract.LeaseRequest{Join: true}), "join again")
	if len(old.lease.Lanes) != 0 {
		e.Errorf("it owns %d lanes after joining again, want none until they are given", len(old.lease.Lanes))
	}
}

// wantRisen checks that all lanes changed hands and that their epochs rose.
func (e *env[Tx]) wantRisen(before, after []contract.Lane) {
	e.Helper()
	if !slices.Equal(numbers(before), numbers(after)) {
		e.Fatalf("taken over lanes %v, want %v", numbers(after), numbers(before))
	}
	epochs := make(map[int]int64)
	for _, l := range before {
		epochs[l.Number] = l.Epoch
	}
	for _, l := range after {
		if l.Epoch <= epochs[l.Number] {
			e.Errorf("epoch of lane %d = %d, want more than %d", l.Number, l.Epoch, epochs[l.Number])
		}
	}
}

func laneUnwanted[Tx any](e *env[Tx]) {
	n := e.join("r1")
	before := slices.Clone(n.lease.Lanes)
	e.advance(10 * longTTL)
	e.must(n.renew(contract.LeaseRequest{}), "renew")
	if !slices.Equal(n.lease.Lanes, before) {
		e.Errorf("lanes = %v, want %v as before: nobody else saw the lease expire", n.lease.Lanes, before)
	}
}

func laneLeave[Tx any](e *env[Tx]) {
	old := e.join("r1")
	n := e.join("r2")
	e.enqueue(msg("a", "k"))
	c := old.claimOne("a")
	e.must(e.s.LeaveLanes(e.ctx, old.name), "LeaveLanes")
	old.wantLost(everyOutcome(c)...)
	e.must(e.s.LeaveLanes(e.ctx, old.name), "LeaveLanes again")
	e.must(e.s.LeaveLanes(e.ctx, "nobody"), "LeaveLanes of a stranger")
	e.must(n.renew(contract.LeaseRequest{}), "renew")
	e.wantRisen(old.lease.Lanes, n.lease.Lanes)
	if err := old.renew(contract.LeaseRequest{}); !errors.Is(err, waybill.ErrLeaseLost) {
		e.Errorf("RenewLanes after leaving = %v, want ErrLeaseLost", err)
	}
}

func laneGive[Tx any](e *env[Tx]) {
	a := e.join("r1")
	b := e.join("r2")
	e.must(b.renew(contract.LeaseRequest{Give: numbers(a.lease.Lanes)}), "renew")
	if len(b.lease.Lanes) != 0 {
		e.Errorf("r2 owns %d lanes after giving away r1's", len(b.lease.Lanes))
	}
	e.must(a.renew(contract.LeaseRequest{}), "renew")
	e.checkShared([]*node[Tx]{a, b})
}

func laneJoinTwice[Tx any](e *env[Tx]) {
	n := e.join("r1")
	before := slices.Clone(n.lease.Lanes)
	e.must(n.renew(contract.LeaseRequest{Join: true}), "join again")
	if !slices.Equal(numbers(n.lease.Lanes), numbers(before)) {
		e.Errorf("lanes = %v, want %v", n.lease.Lanes, before)
	}
}

func laneNeverJoined[Tx any](e *env[Tx]) {
	n := &node[Tx]{env: e, name: "r1"}
	if err := n.renew(contract.LeaseRequest{}); !errors.Is(err, waybill.ErrLeaseLost) {
		e.Errorf("RenewLanes without joining = %v, want ErrLeaseLost", err)
	}
	e.must(n.renew(contract.LeaseRequest{Join: true}), "join")
}

func laneRush[Tx any](e *env[Tx]) {
	nodes := make([]*node[Tx], 8)
	for i := range nodes {
		nodes[i] = &node[Tx]{env: e, name: fmt.Sprintf("r%d", i)}
	}
	e.concurrently(len(nodes), func(i int) error {
		return repeatConflicts(func() error { return nodes[i].renew(contract.LeaseRequest{Join: true}) })
	})
	for range 3 {
		for _, n := range nodes {
			n.giveSurplus()
		}
	}
	e.checkShared(nodes)
}

func laneHandOver[Tx any](e *env[Tx]) {
	a := e.join("r1")
	e.enqueue(msg("a", "k"))
	c := a.claimOne("a")
	b := e.join("r2")
	e.must(a.renew(contract.LeaseRequest{Give: []int{c.Lane.Number}}), "give")
	if slices.Contains(numbers(a.lease.Lanes), c.Lane.Number) {
		e.must(e.s.LeaveLanes(e.ctx, a.name), "LeaveLanes") // one lane: it was taken again
	}
	e.must(b.renew(contract.LeaseRequest{}), "renew")
	a.wantLost(settlement(c, contract.Published))
	b.settle(published(b.claimOne("a"))...)
	e.want(inspect.Published, "a")
}

// laneClockSetBack: the lease of a killed relay was written by a clock that is then set back by hours. It
// lasts as long as any other from then on, and so does that of a live relay.
func laneClockSetBack[Tx any](e *env[Tx]) {
	lease := func(n *node[Tx], req contract.LeaseRequest) {
		req.TTL = time.Minute
		e.must(n.renew(req), "renew the lease of "+n.name)
	}
	e.advance(5 * time.Hour)
	killed, other := &node[Tx]{env: e, name: "killed"}, &node[Tx]{env: e, name: "other"}
	lease(killed, contract.LeaseRequest{Join: true})
	e.advance(-5 * time.Hour)
	lease(other, contract.LeaseRequest{Join: true})
	if len(other.lease.Lanes) != 0 {
		e.Errorf("lanes of another relay = %d, want none while the first one may believe in its lease", len(other.lease.Lanes))
	}
	lease(killed, contract.LeaseRequest{}) // it is alive
	e.advance(45 * time.Second)
	lease(other, contract.LeaseRequest{})
	e.advance(30 * time.Second)
	lease(other, contract.LeaseRequest{})
	if len(other.lease.Lanes) != e.h.Features.Lanes {
		e.Errorf("lanes = %d a lease after the clock was set back, want all %d", len(other.lease.Lanes), e.h.Features.Lanes)
	}
}
