package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func settleTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"nothing to settle", settleNothing[Tx], nil},
		{"published, with an archive", settleArchive[Tx], nil},
		{"published, without an archive", settleWithoutArchive[Tx], nil},
		{"published after a failed attempt", settleAfterRetry[Tx], nil},
		{"repeated", settleRepeated[Tx], nil},
		{"every outcome at once", settleMixed[Tx], nil},
		{"superseded owner", settleSuperseded[Tx], nil},
		{"old epoch of the same owner", settleOldEpoch[Tx], nil},
		{"epoch that never was", settleFutureEpoch[Tx], nil},
		{"node that never joined", settleStranger[Tx], nil},
		{"one lane of two lost", settlePartlyLost[Tx], []need{severalLanes}},
		{"archive for days to come", settlePrepared[Tx], nil},
		{"published messages and unique ids go after the retention", settleRetained[Tx], nil},
	}
}

func settleNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle()
	n.claimOnly("a")
}

func settleArchive[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(published(claims[:2]...)...)
	state := e.want(inspect.Published, "a1", "a2")
	if state.PublishedAt == nil || time.Since(*state.PublishedAt).Abs() > time.Minute {
		e.Errorf("PublishedAt = %v, want about now", state.PublishedAt)
	}
	e.want(inspect.Pending, "a3")
	n.claimOnly("a3")
}

func settleWithoutArchive[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(failed(claims[0], 0))
	n.settleWith(false, published(claims[1])...)
	n.settleWith(false, published(n.claimOne("a1"))...)
	e.wantNowhere("a1", "a2")
	e.gone("a1", "a2")
	n.claimOnly()
}

func settleAfterRetry[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(failed(n.claimOne("a"), 0))
	n.settle(failed(n.claimOne("a"), 0))
	n.settle(published(n.claimOne("a"))...)
	if state := e.want(inspect.Published, "a"); state.Attempts != 2 {
		e.Errorf("attempts of the published message = %d, want the 2 that failed", state.Attempts)
	}
}

// settleRepeated repeats each settlement, as a relay does that did not get the answer.
func settleRepeated[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("published", ""), msg("dead", ""), msg("fanned out", ""), msg("followed", ""))
	claims := n.claim()
	list := []contract.Settlement{
		settlement(find(claims, "published"), contract.Published),
		dead(find(claims, "dead")),
		fanout(find(claims, "fanned out"), "x", "y"),
		publishedThen(find(claims, "followed"), "x"),
	}
	for range 3 {
		n.settle(list...)
	}
	e.want(inspect.Published, "published")
	e.want(inspect.Dead, "dead")
	e.several("fanned out", "followed")
	e.wantCount("fanned out", 2)
	e.wantCount("followed", 2)
	if letters := e.letters(deadletter.Filter{}); len(letters) != 1 {
		e.Errorf("%d dead letters, want 1", len(letters))
	}
	claims = n.claim()
	for range 3 {
		n.settle(published(claims...)...)
	}
	e.wantCount("fanned out", 2)
}

func (e *env[Tx]) wantCount(id string, want int) {
	e.Helper()
	if states := e.states(id); len(states) != want {
		e.Errorf("message %s is in %d places (%s), want %d", id, len(states), places(states), want)
	}
}

func settleMixed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	later := msg("scheduled", "k5")
	later.DeliverAt = time.Now().Add(time.Hour)
	e.enqueue(msg("published", "k1"), msg("waiting", "k2"), msg("behind", "k2"), msg("dead", "k3"), msg("failed", "k4"),
		later, msg("everywhere", "k6"), msg("followed", "k7"), msg("untouched", "k8"))
	claims := n.claim()
	failedLetter := dead(find(claims, "failed"))
	failedLetter.Outcome = contract.Failed
	n.settle(
		settlement(find(claims, "published"), contract.Published),
		failed(find(claims, "waiting"), time.Hour),
		behind(find(claims, "behind")),
		dead(find(claims, "dead")),
		failedLetter,
		settlement(find(claims, "scheduled"), contract.Schedule),
		fanout(find(claims, "everywhere"), "x", "y"),
		publishedThen(to(find(claims, "followed"), "x"), "y"),
	)
	e.want(inspect.Published, "published")
	e.want(inspect.Waiting, "waiting", "behind")
	e.want(inspect.Dead, "dead")
	e.want(inspect.Failed, "failed")
	e.want(inspect.Scheduled, "scheduled")
	e.want(inspect.Pending, "untouched")
	e.several("everywhere", "followed")
	e.wantCount("everywhere", 2)
	e.wantCount("followed", 2)
}

// supersede lets n's lease expire and makes another node take the lanes over.
func (n *node[Tx]) supersede(by string) *node[Tx] {
	n.Helper()
	n.advance(longTTL + time.Minute)
	return n.join(by)
}

func (n *node[Tx]) wantLost(list ...contract.Settlement) {
	n.Helper()
	for _, st := range list {
		lost := n.settleWith(true, st)
		if len(lost) != 1 || lost[0] != st.Claim.Lane.Number {
			n.Errorf("outcome %v: lost lanes %v, want %d", st.Outcome, lost, st.Claim.Lane.Number)
		}
	}
}

// everyOutcome returns a settlement of each kind for one claim.
func everyOutcome(c contract.Claim) []contract.Settlement {
	return []contract.Settlement{
		settlement(c, contract.Published), failed(c, 0), behind(c), settlement(c, contract.Schedule),
		fanout(c, "x", "y"), dead(c), publishedThen(c, "x"),
	}
}

func settleSuperseded[Tx any](e *env[Tx]) {
	old := e.join("r1")
	e.enqueue(msg("a", "k"))
	c := old.claimOne("a")
	n := old.supersede("r2")
	old.wantLost(everyOutcome(c)...)
	e.want(inspect.Pending, "a")

	n.settle(failed(n.claimOne("a"), 0))
	waiting := n.claimOne("a")
	waiting.Lane = c.Lane
	old.wantLost(everyOutcome(waiting)...)
	if state := e.want(inspect.Waiting, "a"); state.Attempts != 1 {
		e.Errorf("attempts = %d, want the new owner's 1", state.Attempts)
	}
}

// settleOldEpoch: the lane went to another node and came back; earlier claims of the node are void.
func settleOldEpoch[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	c := n.claimOne("a")
	other := n.supersede("r2")
	e.must(e.s.LeaveLanes(e.ctx, other.name), "LeaveLanes")
	e.must(n.renew(contract.LeaseRequest{Join: true}), "join")
	n.wantLost(everyOutcome(c)...)
	e.want(inspect.Pending, "a")
	n.settle(published(n.claimOne("a"))...)
}

func settleFutureEpoch[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	c := n.claimOne("a")
	c.Lane.Epoch++
	n.wantLost(everyOutcome(c)...)
	e.want(inspect.Pending, "a")
}

func settleStranger[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	stranger := &node[Tx]{env: e, name: "stranger"}
	stranger.wantLost(everyOutcome(n.claimOne("a"))...)
	e.want(inspect.Pending, "a")
}

func settlePartlyLost[Tx any](e *env[Tx]) {
	n := e.join("r1")
	a, b := n.twoLanes()
	stale := a
	stale.Lane.Epoch--
	for _, list := range [][]contract.Settlement{
		{settlement(stale, contract.Published), settlement(b, contract.Published)},
		{dead(stale), settlement(b, contract.Published)},
		{failed(stale, 0), failed(b, 0)},
	} {
		lost := n.settleWith(true, list...)
		if len(lost) != 1 || lost[0] != a.Lane.Number {
			e.Fatalf("lost lanes %v, want only %d", lost, a.Lane.Number)
		}
		e.want(inspect.Pending, a.Message.ID)
		e.want(inspect.Published, b.Message.ID)
	}
}

// settlePrepared publishes on each of the next ten days, with and without preparation.
func settlePrepared[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for day, m := range msgs("a", "k", 10) {
		if day%4 == 0 {
			e.maintain(30 * 24 * time.Hour)
		}
		e.enqueue(m)
		n.settle(published(n.claimOne(m.ID))...)
		e.want(inspect.Published, m.ID)
		e.advance(24 * time.Hour)
	}
}

// settleRetained publishes a message with a unique id, and another one nine days later.
func settleRetained[Tx any](e *env[Tx]) {
	const day, retention = 24 * time.Hour, 7 * 24 * time.Hour
	n := e.join("r1")
	e.transact(true, msg("old", "k"))
	n.settle(published(n.claimOne("old"))...)
	e.advance(retention - time.Hour)
	if done := e.maintain(retention); done.Rows != 0 || done.Dropped != 0 {
		e.Errorf("MaintainArchive = %+v within the retention, want nothing removed", done)
	}
	e.want(inspect.Published, "old")
	if isNew := e.transact(true, msg("old", "k")); isNew[0] {
		e.Error("a unique id is new again within the retention")
	}
	e.advance(2*day + time.Hour)
	n = e.join("r2")
	e.enqueue(msg("new", "k"))
	n.settle(published(n.claimOne("new"))...)
	if done := e.maintain(0); done.Rows != 0 || done.Dropped != 0 {
		e.Errorf("MaintainArchive without retention = %+v, want nothing removed", done)
	}
	e.want(inspect.Published, "old")
	if done := e.maintain(retention); done.Rows+int64(done.Dropped) < 2 {
		e.Errorf("MaintainArchive = %+v, want a message, or its day, and an id removed", done)
	}
	e.wantNowhere("old")
	e.gone("old")
	e.want(inspect.Published, "new")
	if isNew := e.transact(true, msg("old", "k")); !isNew[0] {
		e.Error("a unique id is a duplicate still after the retention")
	}
}

// maintain makes the store remove what is past the retention.
func (e *env[Tx]) maintain(retention time.Duration) contract.Maintained {
	e.Helper()
	done, err := e.s.MaintainArchive(e.ctx, contract.MaintainRequest{Retention: retention, BatchSize: 1})
	e.must(err, "MaintainArchive")
	return done
}
