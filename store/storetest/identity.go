package storetest

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func identityTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"of other sources and tenants", identityEnqueue[Tx](false), nil},
		{"of other sources and tenants, unique", identityEnqueue[Tx](true), nil},
		{"in one call", identityInCall[Tx](false), nil},
		{"in one call, unique", identityInCall[Tx](true), nil},
		{"another's waits", identityWaiting[Tx], nil},
		{"published, unique", identityPublished[Tx], nil},
		{"waiting for the same destinations", identityFannedOut[Tx], nil},
		{"published, with others to follow", identityFollowers[Tx], nil},
		{"due at once", identityDue[Tx], nil},
		{"another's is in the outbox when it is due", identityDueLater[Tx], nil},
		{"another's is pending when it is requeued", identityRequeued[Tx], nil},
	}
}

// sameID are messages with one id, each of another source or tenant, and without a key.
func sameID(id string) []waybill.Message {
	list := make([]waybill.Message, 4)
	for i := range list {
		list[i] = msg(id, "")
	}
	list[1].Source = "till"
	list[2].Tenant = "acme"
	list[3].Source, list[3].Tenant = "till", "acme"
	return list
}

// senders returns the sources and tenants of claims, in order.
func senders(claims []contract.Claim) []string {
	list := make([]string, len(claims))
	for i, c := range claims {
		list[i] = c.Message.Source + "/" + c.Message.Tenant
	}
	slices.Sort(list)
	return list
}

var allSenders = []string{"shop/acme", "shop/default", "till/acme", "till/default"}

// claimFrom claims everything and checks the sources and tenants.
func (n *node[Tx]) claimFrom(want ...string) []contract.Claim {
	n.Helper()
	claims := n.claim()
	if got := senders(claims); !slices.Equal(got, want) {
		n.Fatalf("claimed messages of %v, want %v", got, want)
	}
	return claims
}

// wantPlaces checks how many places of each status the messages with an id are in.
func (e *env[Tx]) wantPlaces(id string, want map[inspect.Status]int) {
	e.Helper()
	got := make(map[inspect.Status]int)
	for _, s := range e.states(id) {
		got[s.Status]++
	}
	for _, status := range inspect.Statuses() {
		if got[status] != want[status] {
			e.Fatalf("messages with the id %s are in %s, want %v", id, places(e.states(id)), want)
		}
	}
}

func identityEnqueue[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		for range 2 {
			isNew := len(e.states("a")) == 0
			for _, m := range sameID("a") {
				e.wantNew(e.transact(unique, m), isNew)
			}
		}
		n.settle(published(n.claimFrom(allSenders...)...)...)
	}
}

func identityInCall[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		again := slices.Concat(sameID("a"), sameID("a"))
		e.wantNew(e.transact(unique, again...), true, true, true, true, false, false, false, false)
		e.wantNew(e.transact(unique, append(sameID("a"), msg("b", ""))...), false, false, false, false, true)
		n.settle(published(n.claim()...)...)
	}
}

func identityWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	all := sameID("a")
	e.enqueue(all[0])
	n.settle(failed(n.claimOne("a"), 0))
	e.wantNew(e.transact(false, all...), false, true, true, true)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Waiting: 1, inspect.Pending: 3})
	var list []contract.Settlement
	for _, c := range n.claimFrom(allSenders...) {
		list = append(list, failed(c, 0))
	}
	n.settle(list...)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Waiting: 4})
	e.wantNew(e.transact(false, all...), false, false, false, false)
	n.settle(published(n.claimFrom(allSenders...)...)...)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Published: 4})
}

func identityPublished[Tx any](e *env[Tx]) {
	n := e.join("r1")
	all := sameID("a")
	e.wantNew(e.transact(true, all[0], all[3]), true, true)
	n.settle(published(n.claimFrom("shop/default", "till/acme")...)...)
	e.wantNew(e.transact(true, all...), false, true, true, false)
	n.claimFrom("shop/acme", "till/default")
}

func identityFannedOut[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(sameID("a")...)
	for _, c := range n.claimFrom(allSenders...) {
		n.settle(fanout(c, "x", "y"))
	}
	e.wantPlaces("a", map[inspect.Status]int{inspect.Waiting: 8})
	n.settle(published(n.claim()...)...)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Published: 8})
}

func identityFollowers[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(sameID("a")...)
	var list []contract.Settlement
	for _, c := range n.claimFrom(allSenders...) {
		list = append(list, publishedThen(to(c, "x"), "y"))
	}
	n.settle(list...)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Published: 4, inspect.Waiting: 4})
	n.settle(published(n.claimFrom(allSenders...)...)...)
}

// scheduleAll lets a relay schedule messages for a time.
func (n *node[Tx]) scheduleAll(after time.Duration, list ...waybill.Message) {
	n.Helper()
	for i := range list {
		list[i].DeliverAt = time.Now().Add(after)
	}
	n.enqueue(list...)
	var settlements []contract.Settlement
	for _, c := range n.claim() {
		settlements = append(settlements, settlement(c, contract.Schedule))
	}
	n.settle(settlements...)
}

func identityDue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduleAll(time.Hour, sameID("a")...)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Scheduled: 4})
	e.advance(2 * time.Hour)
	e.release(4)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Pending: 4})
	n.claimFrom(allSenders...)
}

func identityDueLater[Tx any](e *env[Tx]) {
	n := e.join("r1")
	all := sameID("a")
	n.scheduleAll(time.Hour, all[:2]...)
	e.enqueue(all[2])
	n.settle(failed(n.claimOne("a"), 0))
	e.enqueue(all[3])
	e.advance(2 * time.Hour)
	e.release(2)
	e.wantPlaces("a", map[inspect.Status]int{inspect.Pending: 3, inspect.Waiting: 1})
	n.claimFrom(allSenders...)
}

func identityRequeued[Tx any](e *env[Tx]) {
	n := e.join("r1")
	all := sameID("a")
	e.enqueue(all[0])
	n.settle(dead(n.claimOne("a")))
	e.enqueue(all[1])
	n.settle(failed(n.claimOne("a"), 0))
	e.enqueue(all[2])
	e.requeue(e.letter().Number, true)
	n.settle(published(n.claimFrom("shop/acme", "shop/default", "till/default")...)...)

	e.enqueue(all[0])
	n.settle(dead(n.claimOne("a")))
	e.enqueue(all[0])
	e.requeue(e.letter().Number, false) // its own id is pending again
}
