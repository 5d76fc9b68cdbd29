package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

func claimTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"nothing there", claimNothing[Tx], nil},
		{"order of a key", claimInOrder[Tx], nil},
		{"claims change nothing", claimTwice[Tx], nil},
		{"limit", claimLimit[Tx], nil},
		{"limit over waiting and new messages", claimLimitMixed[Tx], nil},
		{"batch by batch to the end", claimBatches[Tx], nil},
		{"lanes in the order given", claimLanesInOrder[Tx], []need{severalLanes}},
		{"only the lanes given", claimOnlyLanes[Tx], []need{severalLanes}},
		{"waiting messages of other lanes", claimWaitingLanes[Tx], []need{severalLanes}},
		{"a key stays in its lane", claimKeyLane[Tx], []need{severalLanes}},
		{"committed after later ones were published", claimLateCommit[Tx], []need{concurrentWriters}},
		{"committed after thousands of later ones were published", claimVeryLateCommit[Tx], []need{concurrentWriters}},
		{"deliver at and expire at by the store's clock", claimClock[Tx], nil},
		{"paused destinations", claimPaused[Tx], nil},
	}
}

func claimNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.claimOnly()
	if claims := n.claimWith(relay.ClaimRequest{Limit: 10}); len(claims) != 0 {
		e.Errorf("claimed %d messages of no lanes", len(claims))
	}
}

func claimInOrder[Tx any](e *env[Tx]) {
	n := e.join("r1")
	var want []string
	for i := range 10 {
		for _, key := range []string{"k1", "k2", "k3"} {
			m := msg(fmt.Sprintf("%s-%d", key, 9-i), key) // ids in the other direction
			e.enqueue(m)
			want = append(want, m.ID)
		}
	}
	claims := n.claimOnly(want...)
	last := make(map[string]int64)
	for _, c := range claims {
		if c.Position <= last[c.Message.Key] {
			e.Errorf("position of %s is %d, not above %d", c.Message.ID, c.Position, last[c.Message.Key])
		}
		last[c.Message.Key] = c.Position
	}
}

func claimTwice[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	n.claimOnly("a1", "a2", "a3")
	n.claimOnly("a1", "a2", "a3")
	e.want(outbox.Pending, "a1", "a2", "a3")
}

func claimLimit[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 5)...)
	claims := n.claimWith(relay.ClaimRequest{Lanes: n.lease.Lanes, Limit: 2})
	if got := claimedIDs(claims); !slices.Equal(got, []string{"a1", "a2"}) {
		e.Errorf("claimed %v, want the first two", got)
	}
}

func claimLimitMixed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(settlement(claims[0], relay.Wait), behind(claims[1]), behind(claims[2]))
	e.enqueue(msgs("b", "k2", 3)...)
	for limit := 1; limit <= 7; limit++ {
		got := n.claimWith(relay.ClaimRequest{Lanes: n.lease.Lanes, Limit: limit})
		if len(got) != min(limit, 6) {
			e.Errorf("claimed %d with the limit %d, want %d", len(got), limit, min(limit, 6))
		}
	}
}

func claimBatches[Tx any](e *env[Tx]) {
	n := e.join("r1")
	var list []waybill.Message
	for i := range 200 {
		list = append(list, msg(fmt.Sprintf("a%03d", i), fmt.Sprintf("k%d", i%7)))
	}
	e.enqueue(list...)
	last := make(map[string]string)
	for done := 0; done < len(list); {
		claims := n.claimWith(relay.ClaimRequest{Lanes: n.lease.Lanes, Limit: 13})
		if len(claims) == 0 {
			e.Fatalf("nothing to claim after %d of %d", done, len(list))
		}
		for _, c := range claims {
			if c.Message.ID <= last[c.Message.Key] {
				e.Errorf("%s after %s", c.Message.ID, last[c.Message.Key])
			}
			last[c.Message.Key] = c.Message.ID
		}
		done += len(claims)
		n.settle(published(claims...)...)
	}
	n.claimOnly()
	e.want(outbox.Published, ids(list)...)
}

// twoLanes enqueues messages until two lanes have one, and returns a claim of each.
func (n *node[Tx]) twoLanes() (first, second relay.Claim) {
	n.Helper()
	for i := range 1000 {
		m := msg(fmt.Sprintf("m%d", i), fmt.Sprintf("k%d", i))
		n.enqueue(m)
		claims := n.claim()
		first = claims[0]
		for _, c := range claims {
			if c.Lane != first.Lane {
				return first, c
			}
		}
	}
	n.Fatal("a thousand keys in one lane")
	return first, second
}

func claimLanesInOrder[Tx any](e *env[Tx]) {
	n := e.join("r1")
	a, b := n.twoLanes()
	for _, lanes := range [][]relay.Lane{{a.Lane, b.Lane}, {b.Lane, a.Lane}} {
		claims := n.claimWith(relay.ClaimRequest{Lanes: lanes, Limit: 1})
		if len(claims) != 1 || claims[0].Lane != lanes[0] {
			e.Errorf("claimed %+v, want one message of the lane that was given first, %v", claims, lanes[0])
		}
	}
}

func claimOnlyLanes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	a, b := n.twoLanes()
	for _, lane := range []relay.Lane{a.Lane, b.Lane} {
		for _, c := range n.claimWith(relay.ClaimRequest{Lanes: []relay.Lane{lane}, Limit: allRows}) {
			if c.Lane != lane {
				e.Errorf("claimed lane %v, want only %v", c.Lane, lane)
			}
		}
	}
}

func claimWaitingLanes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	a, b := n.twoLanes()
	n.settle(failed(a, 0), failed(b, 0))
	for _, c := range []relay.Claim{a, b} {
		claims := n.claimWith(relay.ClaimRequest{Lanes: []relay.Lane{c.Lane}, Limit: 1})
		if len(claims) != 1 || claims[0].Message.ID != c.Message.ID {
			e.Errorf("claimed %v of lane %v, want the waiting %s", claimedIDs(claims), c.Lane, c.Message.ID)
		}
	}
}

func claimKeyLane[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i := range 5 {
		a, b := msg(fmt.Sprintf("a%d", i), "some key"), msg(fmt.Sprintf("b%d", i), "some key")
		b.Topic = "invoices"
		e.enqueue(a, b)
	}
	claims := n.claim()
	for _, c := range claims {
		if c.Lane != claims[0].Lane {
			e.Errorf("one key is in the lanes %v and %v", claims[0].Lane, c.Lane)
		}
	}
}

func claimLateCommit[Tx any](e *env[Tx]) {
	n := e.join("r1")
	late := e.begin()
	a := msg("a", "k")
	isNew := e.enqueueIn(late, false, a)
	e.enqueue(msg("b", "k"))
	b := n.claimOne("b")
	n.settle(published(b)...)
	n.claimOnly()
	e.commit(late)
	e.took([]waybill.Message{a}, isNew)
	c := n.claimOne("a")
	if c.Position >= b.Position {
		e.Errorf("position of the first enqueue is %d, of the second %d", c.Position, b.Position)
	}
	n.settle(published(c)...)
}

// claimVeryLateCommit gives a store every reason to believe that a lane is empty up to some
// position, and the time to act on it.
func claimVeryLateCommit[Tx any](e *env[Tx]) {
	n := e.join("r1")
	late := e.begin()
	a := msg("a", "k")
	isNew := e.enqueueIn(late, false, a)
	for began, round := time.Now(), 0; round < 3 || time.Since(began) < 500*time.Millisecond; round++ {
		if round < 3 {
			e.enqueue(msgs(fmt.Sprintf("b%d-", round), "k", 1000)...)
		}
		n.publishAll()
	}
	e.commit(late)
	e.took([]waybill.Message{a}, isNew)
	n.settle(published(n.claimOne("a"))...)
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		n.claimOnly()
	}
	e.enqueue(msg("c", "k"))
	n.claimOnly("c")
}

func claimClock[Tx any](e *env[Tx]) {
	n := e.join("r1")
	m := msg("a", "k")
	m.DeliverAt = time.Now().Add(time.Hour)
	m.ExpiresAt = time.Now().Add(3 * time.Hour)
	e.enqueue(m)
	c := n.claimOne("a")
	if c.DelayFor < 55*time.Minute || c.DelayFor > 65*time.Minute || c.Expired {
		e.Errorf("DelayFor, Expired = %v, %v, want an hour and false", c.DelayFor, c.Expired)
	}
	e.want(outbox.Scheduled, "a")
	e.advance(2 * time.Hour)
	if c = n.claimOne("a"); c.DelayFor != 0 || c.Expired {
		e.Errorf("when it is due DelayFor, Expired = %v, %v, want 0 and false", c.DelayFor, c.Expired)
	}
	e.want(outbox.Pending, "a")
	e.advance(2 * time.Hour)
	if c = n.claimOne("a"); !c.Expired {
		e.Error("Expired = false after ExpiresAt")
	}
	n.settle(failed(c, 0))
	if c = n.claimOne("a"); !c.Expired {
		e.Error("Expired = false after ExpiresAt for a waiting message")
	}
}

func claimPaused[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"), msg("b", "k"))
	for _, c := range n.claim() {
		n.settle(fanout(c, "x", "y"))
	}
	e.several("a", "b")
	claims := n.claimWith(relay.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Paused: []string{"x", "z"}})
	for _, c := range claims {
		if c.Destination != "y" {
			e.Errorf("claimed %s for the paused %s", c.Message.ID, c.Destination)
		}
	}
	if len(claims) != 2 {
		e.Errorf("claimed %d messages, want those for y", len(claims))
	}
}
