package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func destinationTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"one of several is all, straight from the outbox", destinationStraight[Tx], nil},
		{"one row for each", fanOut[Tx], nil},
		{"one row for each, after a requeue", fanOutRequeued[Tx], nil},
		{"what follows a failed one of its destination waits", fanOutOrder[Tx], nil},
		{"the first of its destination fails in a batch of its own", fanOutOrderAlone[Tx], nil},
		{"followers fail in a batch of their own", followersOrderAlone[Tx], nil},
		{"fan-out behind a waiting message", fanOutBehind[Tx], nil},
		{"blocked for one, free for another", fanOutBlocked[Tx], nil},
		{"dead for one, published to another", fanOutDead[Tx], nil},
		{"followers get what is published", followers[Tx], nil},
		{"followers of a message that waited", followersOfWaiting[Tx], nil},
		{"followers in order", followersInOrder[Tx], nil},
		{"followers without an archive", followersNoArchive[Tx], nil},
		{"retry at one destination of a single-destination row", routedRetry[Tx], nil},
	}
}

func fanOut[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	before := n.claimOne("a")
	n.settle(fanout(before, "x", "y"))
	e.several("a")
	for _, state := range e.states("a") {
		if state.Status != inspect.Waiting || state.Destination == "" {
			e.Errorf("state = %+v, want a waiting row of a destination", state)
		}
	}
	x, y := n.bothOf("a")
	if x.Position != before.Position || y.Position != before.Position || x.Blocked || y.Blocked {
		e.Errorf("claims = %+v and %+v, want the position %d and neither blocked", x, y, before.Position)
	}
	n.settle(failed(x, time.Hour), published(y)[0])
	n.claimOnly()
	e.advance(2 * time.Hour)
	if c := n.claimOne("a"); c.Destination != "x" || c.Attempts != 1 {
		e.Errorf("claim = %+v, want x with its one attempt", c)
	}
	n.settle(published(n.claimOne("a"))...)
	for _, state := range e.states("a") {
		want := 0
		if state.Destination == "x" {
			want = 1
		}
		if state.Status != inspect.Published || state.Attempts != want {
			e.Errorf("state = %+v, want published after %d attempts", state, want)
		}
	}
	e.wantCount("a", 2)
}

// fanOutRequeued: a message that was dead-lettered before it was routed, and was requeued, has a row for
// each destination instead of the one that it had, and what follows it in its key waits behind them.
func fanOutRequeued[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	e.requeue(e.numbers()[""], true)
	c := n.claimOne("a")
	if !c.Waiting || c.Destination != "" {
		e.Fatalf("claim = %+v, want a waiting row for no destination", c)
	}
	n.settle(fanout(c, "x", "y"))
	e.several("a")
	x, y := n.bothOf("a")
	if x.Position != c.Position || y.Position != c.Position || x.Blocked || y.Blocked || x.Attempts+y.Attempts != 0 {
		e.Errorf("claims = %+v and %+v, want the position %d, neither blocked nor tried", x, y, c.Position)
	}
	e.enqueue(msg("b", "k"))
	if b := find(n.claim(), "b"); !b.Blocked {
		e.Errorf("claim = %+v, want it blocked", b)
	}
	n.settle(append(published(x), published(y)...)...)
	for _, state := range e.states("a") {
		if state.Status != inspect.Published || state.Destination == "" {
			e.Errorf("state = %+v, want it published to a destination", state)
		}
	}
	e.wantCount("a", 2)
}

// bothOf claims and returns the rows of one message for x and y.
func (n *node[Tx]) bothOf(id string) (x, y contract.Claim) {
	n.Helper()
	for _, c := range n.claim() {
		switch {
		case c.Message.ID == id && c.Destination == "x":
			x = c
		case c.Message.ID == id && c.Destination == "y":
			y = c
		}
	}
	if x.Message.ID == "" || y.Message.ID == "" {
		n.Fatalf("no claims of %s for both x and y", id)
	}
	return x, y
}

// rows returns "id destination" of claims.
func rows(claims []contract.Claim) []string {
	list := make([]string, len(claims))
	for i, c := range claims {
		list[i] = c.Message.ID + " " + c.Destination
	}
	return list
}

// wantRows claims and checks that exactly the given rows may be sent, in any order.
func (n *node[Tx]) wantRows(want ...string) []contract.Claim {
	n.Helper()
	claims := n.claim()
	got := make(map[string]int)
	for _, r := range rows(claims) {
		got[r]++
	}
	for _, r := range want {
		got[r]--
	}
	for _, count := range got {
		if count != 0 {
			n.Fatalf("claimed %q, want %q", rows(claims), want)
		}
	}
	return claims
}

func fanOutOrder[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	e.several("a1", "a2", "a3")
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(fanout(claims[0], "x", "y"), fanout(claims[1], "x", "y"), fanout(claims[2], "x", "y"))
	claims = n.wantRows("a1 x", "a2 x", "a3 x", "a1 y", "a2 y", "a3 y")
	var outcomes []contract.Settlement
	for _, c := range claims {
		switch {
		case c.Destination == "y":
			outcomes = append(outcomes, published(c)...)
		case c.Message.ID == "a1":
			outcomes = append(outcomes, failed(c, time.Hour))
		default:
			outcomes = append(outcomes, behind(c))
		}
	}
	n.settle(outcomes...)
	n.wantRows()
	e.advance(2 * time.Hour)
	n.settle(published(n.wantRows("a1 x")...)...)
	n.wantRows("a2 x", "a3 x")
}

// fanOutOrderAlone: the batch ended before a2 and a3, so they are not reported as behind.
func fanOutOrderAlone[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	e.several("a1", "a2", "a3")
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(fanout(claims[0], "x", "y"), fanout(claims[1], "x", "y"), fanout(claims[2], "x", "y"))
	x, _ := n.bothOf("a1")
	n.settle(failed(x, time.Hour))
	n.wantRows("a1 y", "a2 y", "a3 y")
}

func followersOrderAlone[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	e.several("a1", "a2", "a3")
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(publishedThen(claims[0], "x"), publishedThen(claims[1], "x"), publishedThen(claims[2], "x"))
	n.settle(failed(n.wantRows("a1 x", "a2 x", "a3 x")[0], time.Hour))
	n.wantRows()
}

func fanOutBehind[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	e.several("a1", "a2")
	claims := n.claimOnly("a1", "a2")
	n.settle(fanout(claims[0], "x", "y"))
	x, y := n.bothOf("a1")
	n.settle(failed(x, time.Hour), published(y)[0])
	n.settle(fanout(n.claimOne("a2"), "x", "y"))
	n.wantRows("a2 y")
	e.advance(2 * time.Hour)
	n.settle(published(find(n.claim(), "a1"))...)
	n.wantRows("a2 x", "a2 y")
}

// fanOutBlocked: a2 goes only to y, where nothing waits, though it is reported as blocked
// by the a1 that waits for x. It follows, and is free at once.
func fanOutBlocked[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"))
	n.settle(failed(to(n.claimOne("a1"), "x"), time.Hour))
	e.enqueue(msg("a2", "k"))
	c := n.claimOne("a2")
	if c.Blocked {
		n.settle(behind(to(c, "y")))
	}
	n.claimOnly("a2")
}

func fanOutDead[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	e.several("a")
	n.settle(fanout(n.claimOne("a"), "x", "y"))
	x, y := n.bothOf("a")
	n.settle(dead(x), published(y)[0])
	letter := e.letter()
	if letter.Destination != "x" {
		e.Errorf("destination of the letter = %q, want x", letter.Destination)
	}
	e.requeue(letter.Number, true)
	c := n.claimOne("a")
	if c.Destination != "x" {
		e.Errorf("destination of the requeued message = %q, want x", c.Destination)
	}
	n.settle(published(c)...)
	e.wantCount("a", 2)
}

func followers[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	e.several("a")
	n.settle(publishedThen(to(n.claimOne("a"), "x"), "y", "z"))
	e.wantCount("a", 3)
	claims := n.wantRows("a y", "a z")
	for _, c := range claims {
		if c.Attempts != 0 || c.Life != 0 || !c.Waiting {
			e.Errorf("claim = %+v, want a waiting row that was not tried", c)
		}
	}
	n.settle(published(claims...)...)
	for _, state := range e.states("a") {
		if state.Status != inspect.Published {
			e.Errorf("state = %+v, want published", state)
		}
	}
	e.wantCount("a", 3)
}

func followersOfWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	e.several("a1")
	claims := n.claimOnly("a1", "a2")
	n.settle(failed(to(claims[0], "x"), 0), behind(to(claims[1], "x")))
	c := n.claimOne("a1")
	n.settle(publishedThen(c, "y"))
	claims = n.wantRows("a1 y", "a2 x")
	if y := find(claims, "a1"); y.Attempts != 0 {
		e.Errorf("attempts at y = %d, want 0: those were at x", y.Attempts)
	}
}

func followersInOrder[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	e.several("a1", "a2", "a3")
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(publishedThen(to(claims[0], "x"), "y"), publishedThen(to(claims[1], "x"), "y"), publishedThen(to(claims[2], "x"), "y"))
	claims = n.wantRows("a1 y", "a2 y", "a3 y")
	n.settle(failed(claims[0], time.Hour), behind(claims[1]), behind(claims[2]))
	n.wantRows()
	e.advance(2 * time.Hour)
	n.wantRows("a1 y")
}

func followersNoArchive[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settleWith(false, publishedThen(to(n.claimOne("a"), "x"), "y"))
	e.wantCount("a", 1)
	n.settleWith(false, published(n.claimOne("a"))...)
	e.wantNowhere("a")
	e.gone("a")
}

func routedRetry[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(failed(to(n.claimOne("a"), "x"), 0))
	c := n.claimOne("a")
	if c.Destination != "x" {
		e.Errorf("destination = %q, want x", c.Destination)
	}
	n.settle(dead(c))
	if l := e.letters(deadletter.Filter{}); len(l) != 1 || l[0].Destination != "x" {
		e.Errorf("letters = %+v, want one of x", l)
	}
}

// destinationStraight: a message that only one of several destinations matches needs no
// waiting row, and the archive says where it went.
func destinationStraight[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	c := n.claimOne("a")
	c.Destination = "x"
	n.settle(published(c)...)
	if st := e.want(inspect.Published, "a"); st.Destination != "x" {
		e.Errorf("destination = %q, want x", st.Destination)
	}
}
