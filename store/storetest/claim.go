package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func claimTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"nothing there", claimNothing[Tx], nil},
		{"order of a key", claimInOrder[Tx], nil},
		{"claims change nothing", claimTwice[Tx], nil},
		{"limit", claimLimit[Tx], nil},
		{"limit over waiting and new messages", claimLimitMixed[Tx], nil},
		{"limit of bytes", claimBytes[Tx], nil},
		{"batch by batch to the end", claimBatches[Tx], nil},
		{"the oldest, or lanes in the order given", claimLanesInOrder[Tx], []need{severalLanes}},
		{"only the lanes given", claimOnlyLanes[Tx], []need{severalLanes}},
		{"waiting messages of other lanes", claimWaitingLanes[Tx], []need{severalLanes}},
		{"a key stays in its lane", claimKeyLane[Tx], []need{severalLanes}},
		{"the lanes of known keys", claimKnownLanes[Tx], []need{severalLanes}},
		{"committed after later ones were published", claimLateCommit[Tx], []need{concurrentWriters}},
		{"committed after thousands of later ones were published", claimVeryLateCommit[Tx], []need{concurrentWriters}},
		{"what is in flight is left out", claimHeld[Tx], nil},
		{"what is in flight is left out of what is due", claimHeldWaiting[Tx], nil},
		{"a row is held for one of two destinations", claimHeldFor[Tx], nil},
		{"what was released, again from the beginning", claimAgain[Tx], nil},
		{"what was released, also after a claim that due ones have filled", claimAgainAfterDue[Tx], nil},
		{"waiting messages only when asked for", claimNotDue[Tx], nil},
		{"forward, with one transaction open for the whole time", claimForward[Tx], []need{concurrentWriters}},
		{"several open writers", claimOpenWriters[Tx], []need{concurrentWriters}},
		{"by another store object", claimElsewhere[Tx], []need{persists}},
		{"deliver at and expire at by the store's clock", claimClock[Tx], nil},
		{"paused destinations", claimPaused[Tx], nil},
		{"ahead of a tenant's backlog", claimAhead[Tx], nil},
		{"ahead of a backlog, never past a key", claimAheadKeys[Tx], nil},
		{"ahead of a backlog, in parts", claimAheadParts[Tx], nil},
		{"tenants share a relay that is behind", claimShared[Tx], nil},
	}
}

func claimNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.claimOnly()
	if claims := n.claimWith(contract.ClaimRequest{Limit: 10}); len(claims) != 0 {
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
	e.want(inspect.Pending, "a1", "a2", "a3")
}

func claimLimit[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 5)...)
	claims := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: 2})
	if got := claimedIDs(claims); !slices.Equal(got, []string{"a1", "a2"}) {
		e.Errorf("claimed %v, want the first two", got)
	}
}

// claimBytes: a claim ends with the message that reaches the limit of bytes, new or waiting, and later
// claims find the rest, in order.
func claimBytes[Tx any](e *env[Tx]) {
	const count, size, limit = 20, 1000, 2500 // three of them
	n := e.join("r1")
	enqueue := func(prefix string, key func(i int) string) {
		var list []waybill.Message
		for i := range count {
			m := msg(fmt.Sprintf("%s%03d", prefix, i), key(i))
			m.Payload = []byte(strings.Repeat("x", size))
			list = append(list, m)
		}
		e.enqueue(list...)
	}
	// each claims all, and settles what it has claimed.
	each := func(settle func(c contract.Claim)) {
		for done := 0; done < count; done += 3 {
			req := contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: count, Bytes: limit, Due: true}
			claims := n.claimWith(req)
			if want := min(3, count-done); len(claims) != want || req.Full(claims) != (want == 3) {
				e.Fatalf("claimed %d messages of %d bytes with the limit %d, want %d", len(claims), size, limit, want)
			}
			for _, c := range claims {
				settle(c)
			}
		}
	}
	enqueue("a", func(i int) string { return fmt.Sprint("k", i%3) })
	last := make(map[string]string)
	each(func(c contract.Claim) {
		if c.Message.ID <= last[c.Message.Key] {
			e.Errorf("%s after %s", c.Message.ID, last[c.Message.Key])
		}
		last[c.Message.Key] = c.Message.ID
		n.settle(published(c)...)
	})
	n.claimOnly()

	enqueue("b", func(int) string { return "" })
	for _, c := range n.claim() {
		n.settle(failed(c, 0))
	}
	each(func(c contract.Claim) {
		if !c.Waiting {
			e.Errorf("%s does not wait", c.Message.ID)
		}
		n.settle(published(c)...)
	})
	n.claimOnly()
}

func claimLimitMixed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(settlement(claims[0], contract.Wait), behind(claims[1]), behind(claims[2]))
	e.enqueue(msgs("b", "k2", 3)...)
	for limit := 1; limit <= 7; limit++ {
		got := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: limit, Due: true, Again: numbers(n.lease.Lanes)})
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
		claims := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: 13, Due: true})
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
	e.want(inspect.Published, ids(list)...)
}

// twoLanes enqueues messages until two lanes have one, and returns a claim of each.
func (n *node[Tx]) twoLanes() (first, second contract.Claim) {
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
	for _, lanes := range [][]contract.Lane{{a.Lane, b.Lane}, {b.Lane, a.Lane}} {
		claims := n.claimWith(contract.ClaimRequest{Lanes: lanes, Limit: 1, Again: numbers(lanes)})
		if len(claims) != 1 || claims[0].Lane != lanes[0] && claims[0].Position != min(a.Position, b.Position) {
			e.Errorf("claimed %+v, want one message: the oldest, or of the lane that was given first, %v", claims, lanes[0])
		}
	}
}

func claimOnlyLanes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	a, b := n.twoLanes()
	for _, lane := range []contract.Lane{a.Lane, b.Lane} {
		for _, c := range n.claimWith(contract.ClaimRequest{Lanes: []contract.Lane{lane}, Limit: allRows}) {
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
	for _, c := range []contract.Claim{a, b} {
		claims := n.claimWith(contract.ClaimRequest{Lanes: []contract.Lane{c.Lane}, Limit: 1, Due: true})
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

// claimKnownLanes: rows of one version of a program are claimed by another version.
func claimKnownLanes[Tx any](e *env[Tx]) {
	n := e.join("r1")
	want := map[string]int{"customer-1": 40, "customer-2": 33, `back\slash`: 20, "ü": 32, " ": 54}
	for key := range want {
		e.enqueue(msg("id of "+key, key), msg(key, "")) // without a key the id counts
	}
	claims := n.claim()
	if len(claims) != 2*len(want) {
		e.Errorf("claimed %d messages, want %d", len(claims), 2*len(want))
	}
	for _, c := range claims {
		key := strings.TrimPrefix(c.Message.ID, "id of ")
		if c.Lane.Number != want[key] {
			e.Errorf("message %q with the key %q is in lane %d, want %d", c.Message.ID, c.Message.Key, c.Lane.Number, want[key])
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

// next claims forward, as a relay does that has settled or still holds its earlier claims.
func (n *node[Tx]) next(limit int, held ...contract.Claim) []contract.Claim {
	n.Helper()
	positions := make([]int64, len(held))
	for i := range held {
		positions[i] = held[i].Position
	}
	slices.Sort(positions)
	return n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: limit, Held: positions})
}

func (n *node[Tx]) wantNext(what string, claims []contract.Claim, want ...string) {
	n.Helper()
	got := claimedIDs(claims)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		n.Fatalf("%s: claimed %v, want %v", what, got, want)
	}
}

func claimHeld[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	e.enqueue(msg("b1", "k2"))
	claims := n.claimOnly("a1", "a2", "a3", "b1")
	n.wantNext("all held", n.next(allRows, claims...))
	req := contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: 2, Again: numbers(n.lease.Lanes), Held: []int64{find(claims, "a1").Position, find(claims, "a3").Position}}
	slices.Sort(req.Held)
	if got := claimedIDs(n.claimWith(req)); len(got) != 2 || slices.Contains(got, "a1") || slices.Contains(got, "a3") {
		e.Errorf("claimed %v, want two that are not in flight", got)
	}
}

func claimHeldWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(published(n.claimOne("a1"))...)
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	e.enqueue(msg("b", "k2"))
	req := contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, Held: []int64{claims[0].Position, claims[1].Position, claims[2].Position, claims[3].Position}}
	n.wantNext("all that are due are in flight", n.claimWith(req), "b")
	req.Held, req.Again = req.Held[1:2], numbers(n.lease.Lanes)
	n.wantNext("one of them is", n.claimWith(req), "a2", "a4", "a5", "b")
}

// claimHeldFor: of a message for two destinations, of which the caller holds one row, the other is
// returned, and so is what is behind it, in order.
func claimHeldFor[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	for _, c := range n.claimOnly("a1", "a2", "a3") {
		n.settle(fanout(c, "x", "y"))
		e.exempt[c.Message.ID] = true // it is in two places
	}
	rows := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, Again: numbers(n.lease.Lanes)})
	first := find(rows, "a1").Position
	got := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, Held: []int64{first}, HeldFor: map[int64][]string{first: {"x"}}})
	var places []string
	for _, c := range got {
		places = append(places, c.Message.ID+" "+c.Destination)
	}
	slices.Sort(places)
	if want := []string{"a1 y", "a2 y", "a3 y"}; len(rows) != 6 || !slices.Equal(places, want) {
		e.Errorf("claimed %d rows, then %v with one held, want 6, then %v", len(rows), places, want)
	}
}

// claimAgainAfterDue: the caller names lanes to read again only once, whatever the claim finds.
func claimAgainAfterDue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("w", ""))
	n.settle(failed(n.claimOne("w"), 0))
	e.enqueue(msg("a", ""))
	for range 4 { // both, and dropped, until a store has seen enough to read forward
		n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true})
	}
	due := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: 1, Due: true, Again: numbers(n.lease.Lanes)})
	n.wantNext("as many as may be", due, "w")
	n.wantNext("the rest", n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Held: []int64{due[0].Position}}), "a")
}

// claimAgain: some stores always return what is not held.
func claimAgain[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	e.enqueue(msgs("b", "k2", 3)...)
	for range 4 { // until a store has seen enough to read forward
		n.next(allRows)
	}
	claims := n.claim()
	n.wantNext("released, all of it", claims, "a1", "a2", "a3", "b1", "b2", "b3")
	lane := find(claims, "a1").Lane
	got := n.claimWith(contract.ClaimRequest{
		Lanes: []contract.Lane{lane}, Limit: allRows, Again: []int{lane.Number}, Held: []int64{find(claims, "a2").Position},
	})
	if ids := claimedIDs(got); !slices.Contains(ids, "a1") || slices.Contains(ids, "a2") || !slices.Contains(ids, "a3") {
		e.Errorf("claimed %v of the lane that is read again, want a1 and a3, not a2 which is held", ids)
	}
}

func claimNotDue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(failed(n.claimOne("a"), 0))
	e.enqueue(msg("b", "k2"))
	n.wantNext("without Due", n.next(allRows), "b")
	n.claimOnly("a", "b")
}

// claimForward: a transaction that has enqueued stays open while thousands of messages are published,
// and when it commits, with a later message of its key right behind it, both are claimed, in order.
func claimForward[Tx any](e *env[Tx]) {
	n := e.join("r1")
	late := e.begin()
	a1 := msg("a1", "a")
	isNew := e.enqueueIn(late, false, a1)
	done := 0
	for round := range 30 {
		list := msgs(fmt.Sprintf("m%d-", round), "", 100)
		e.enqueue(list...)
		for claims := n.next(37); len(claims) > 0; claims = n.next(37) {
			n.settle(published(claims...)...)
			done += len(claims)
		}
	}
	if done != 3000 {
		e.Fatalf("%d messages went by, want 3000", done)
	}
	e.commit(late)
	e.took([]waybill.Message{a1}, isNew)
	e.enqueue(msg("a2", "a"))
	claims := n.next(allRows)
	if got := claimedIDs(claims); !slices.Equal(got, []string{"a1", "a2"}) {
		e.Fatalf("claimed %v, want the late one and then its successor", got)
	}
	n.settle(published(claims...)...)
	n.wantNext("everything was claimed", n.next(allRows))
}

// claimOpenWriters: they commit in the opposite order of their enqueues, or roll back.
func claimOpenWriters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	var held []contract.Claim
	type writer struct {
		tx    Tx
		msgs  []waybill.Message
		isNew []bool
	}
	var open []writer
	claim := func(what string, want ...string) {
		e.Helper()
		claims := n.next(allRows, held...)
		n.wantNext(what, claims, want...)
		held = append(held, claims...)
	}
	for i := range 4 {
		w := writer{tx: e.begin(), msgs: msgs(fmt.Sprintf("w%d-", i), fmt.Sprint("k", i), 2)}
		w.isNew = e.enqueueIn(w.tx, false, w.msgs...)
		open = append(open, w)
		id := fmt.Sprint("between", i)
		e.enqueue(msg(id, ""))
		claim("between two writers", id)
	}
	for i := len(open) - 1; i >= 0; i-- {
		if i == 2 {
			e.rollback(open[i].tx)
			claim("after a rollback")
			continue
		}
		e.commit(open[i].tx)
		e.took(open[i].msgs, open[i].isNew)
		claim("after a commit", ids(open[i].msgs)...)
	}
	n.settle(published(held...)...)
}

// claimElsewhere: what one store object has claimed is unknown to another one, and what waits blocks
// its key there, too.
func claimElsewhere[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"), msg("b1", "k2"))
	n.settle(failed(find(n.next(allRows), "a1"), time.Hour))
	e.enqueue(msg("a2", "k"))
	for range 2 {
		c := find(n.claimOnly("a2", "b1"), "a2")
		if !c.Blocked {
			e.Error("a2 is not blocked although a1 waits")
		}
		e.reopen()
	}
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
	e.want(inspect.Scheduled, "a")
	e.advance(2 * time.Hour)
	if c = n.claimOne("a"); c.DelayFor != 0 || c.Expired {
		e.Errorf("when it is due DelayFor, Expired = %v, %v, want 0 and false", c.DelayFor, c.Expired)
	}
	e.want(inspect.Pending, "a")
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
	claims := n.claimWith(contract.ClaimRequest{Lanes: n.lease.Lanes, Limit: allRows, Due: true, Paused: []string{"x", "z"}})
	for _, c := range claims {
		if c.Destination != "y" {
			e.Errorf("claimed %s for the paused %s", c.Message.ID, c.Destination)
		}
	}
	if len(claims) != 2 {
		e.Errorf("claimed %d messages, want those for y", len(claims))
	}
}
