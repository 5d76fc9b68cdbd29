package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func orderTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"what follows a waiting message is blocked", followersBlocked[Tx], nil},
		{"what follows is blocked from the moment that something waits", blockedSince[Tx], nil},
		{"what waits behind becomes due when the first is published", behindPublished[Tx], nil},
		{"what waits behind becomes due when the first is dead", behindDead[Tx], nil},
		{"what waits behind becomes due when the first is scheduled", behindScheduled[Tx], nil},
		{"a failed message is tried alone", failedAlone[Tx], nil},
		{"what waits behind fails in its turn", behindFails[Tx], nil},
		{"several of a key fail in one batch", failTogether[Tx], nil},
		{"several waiting ones of a key fail in one batch", failTogetherWaiting[Tx], nil},
		{"one fails behind one that dies", failBehindDead[Tx], nil},
		{"one that waits fails behind one that dies", failBehindDeadWaiting[Tx], nil},
		{"a failed one behind a failed one that waits", failBehind[Tx], nil},
		{"first and last of a key settled together", settleEnds[Tx], nil},
		{"the first published in the batch that lets others wait", publishedBeforeBehind[Tx], nil},
		{"committed late before a message that waits", lateBeforeWaiting[Tx], []need{concurrentWriters}},
		{"only the first that waits takes others along", firstTakesAlong[Tx], []need{concurrentWriters}},
	}
}

func followersBlocked[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"))
	n.settle(failed(n.claimOne("a1"), time.Hour))
	elsewhere := msg("elsewhere", "k")
	elsewhere.Topic = "invoices"
	e.enqueue(msg("a2", "k"), msg("other", "k2"), msg("no key", ""), elsewhere)
	for _, c := range n.claimOnly("a2", "other", "no key", "elsewhere") {
		if want := c.Message.ID == "a2"; c.Blocked != want {
			e.Errorf("%s: Blocked = %v, want %v", c.Message.ID, c.Blocked, want)
		}
	}
	e.advance(2 * time.Hour)
	n.settle(published(find(n.claim(), "a1"))...)
	if c := find(n.claim(), "a2"); c.Blocked {
		e.Error("a2 is still blocked after a1 was published")
	}
}

// blockedSince: a store that knew of no waiting message learns of one from the settlement.
func blockedSince[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("other", "k9"))
	n.settle(failed(n.claimOne("other"), 3*time.Hour)) // something waits, of another key
	for _, m := range msgs("a", "k", 3) {
		e.enqueue(m)
		c := n.claimOne(m.ID)
		if c.Blocked {
			e.Fatalf("%s is blocked, and nothing of its key waits", m.ID)
		}
		n.settle(published(c)...)
	}
	e.enqueue(msg("b1", "k"))
	n.settle(failed(n.claimOne("b1"), time.Hour))
	e.enqueue(msg("b2", "k"))
	if c := n.claimOne("b2"); !c.Blocked {
		e.Error("b2 is not blocked although b1 waits")
	}
	e.advance(2 * time.Hour)
	claims := n.claimOnly("b1", "b2")
	n.settle(published(find(claims, "b1"))...)
	if c := n.claimOne("b2"); c.Blocked {
		e.Error("b2 is blocked although b1 is published")
	}
}

// blocked enqueues a1 to a5 of one key, lets a1 fail, and the rest wait behind it.
func (n *node[Tx]) blocked(after time.Duration) {
	n.Helper()
	n.enqueue(msgs("a", "k", 5)...)
	claims := n.claimOnly("a1", "a2", "a3", "a4", "a5")
	n.settle(failed(claims[0], after), behind(claims[1]), behind(claims[2]), behind(claims[3]))
	n.settle(behind(find(n.claim(), "a5"))) // it came in a later batch
	n.want(inspect.Waiting, "a1", "a2", "a3", "a4", "a5")
}

func behindPublished[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(time.Hour)
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	for _, c := range claims {
		if !c.Waiting || c.Blocked || c.Attempts != 0 {
			e.Errorf("claim of %s = %+v, want it waiting, not blocked, not tried", c.Message.ID, c)
		}
	}
	n.settle(published(claims...)...)
	e.want(inspect.Published, "a1", "a2", "a3", "a4", "a5")
}

func behindDead[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(dead(n.claimOne("a1")))
	n.claimOnly("a2", "a3", "a4", "a5")
}

func behindScheduled[Tx any](e *env[Tx]) {
	n := e.join("r1")
	first := msg("a1", "k")
	first.DeliverAt = time.Now().Add(24 * time.Hour)
	e.enqueue(first, msg("a2", "k"))
	claims := n.claimOnly("a1", "a2")
	n.settle(failed(claims[0], 0), behind(claims[1]))
	n.settle(settlement(n.claimOne("a1"), contract.Schedule))
	n.claimOnly("a2")
}

func failedAlone[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(failed(n.claimOne("a1"), 0))
	n.claimOne("a1")
}

func behindFails[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(published(n.claimOne("a1"))...)
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	n.settle(published(claims[0])[0], failed(claims[1], time.Hour), behind(claims[2]), behind(claims[3]))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a3"))...)
	n.claimOnly("a4", "a5")
}

// failTogether: the later one's own wait is shorter, but it must not overtake.
func failTogether[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(failed(claims[0], time.Hour), failed(claims[1], 0), failed(claims[2], time.Minute))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	n.settle(published(n.claimOne("a2"))...) // it has failed before: alone
	n.settle(published(n.claimOne("a3"))...)
}

func failTogetherWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(published(n.claimOne("a1"))...)
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	n.settle(failed(claims[0], time.Hour), failed(claims[1], 0), failed(claims[2], 0), behind(claims[3]))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a2"))...)
	n.claimOnly("a3")
}

// failBehindDead: nothing waits before a2, so its own wait counts.
func failBehindDead[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	n.settle(dead(claims[0]), failed(claims[1], time.Hour), published(claims[2])[0])
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOnly("a2")
}

func failBehindDeadWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(published(n.claimOne("a1"))...)
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	n.settle(dead(claims[0]), failed(claims[1], time.Hour), behind(claims[2]), behind(claims[3]))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOnly("a3")
}

func failBehind[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(failed(claims[0], time.Hour))
	n.settle(failed(claims[1], 0)) // of the same wave, its refusal came late
	n.claimOnly()
	state := e.want(inspect.Waiting, "a2")
	if state.Attempts != 1 || state.Error == "" {
		e.Errorf("attempts, error = %d, %q, want those of the failed attempt", state.Attempts, state.Error)
	}
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	if c := n.claimOne("a2"); c.Attempts != 1 {
		e.Errorf("attempts = %d, want 1", c.Attempts)
	}
}

// settleEnds: the message between waits, so it must become due although both neighbours leave.
func settleEnds[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(dead(n.claimOne("a1")))
	claims := n.claimOnly("a2", "a3", "a4", "a5")
	n.settle(dead(claims[0]), published(claims[3])[0])
	n.claimOnly("a3", "a4")
}

func publishedBeforeBehind[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 4)...)
	claims := n.claimOnly("a1", "a2", "a3", "a4")
	n.settle(published(claims[0])[0], dead(claims[1]), behind(claims[2]), behind(claims[3]))
	n.claimOnly("a3", "a4") // they wait for nothing any more
}

func lateBeforeWaiting[Tx any](e *env[Tx]) {
	n := e.join("r1")
	late := e.begin()
	a1 := msgs("a", "k", 1)
	isNew := e.enqueueIn(late, false, a1...)
	e.enqueue(msg("a2", "k"))
	n.settle(failed(n.claimOne("a2"), time.Hour))
	e.commit(late)
	e.took(a1, isNew)
	n.settle(behind(n.claimOne("a1"))) // blocked, as the relay sees it
	n.settle(published(n.claimOne("a1"))...)
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a2"))...)
}

// lateBeforeWaiting returns a node on which a2 of a key waits for an hour by itself, and a1, committed since,
// is before it.
func (e *env[Tx]) lateBeforeWaiting() *node[Tx] {
	e.Helper()
	n := e.join("r1")
	late := e.begin()
	a1 := msgs("a", "k", 1)
	isNew := e.enqueueIn(late, false, a1...)
	e.enqueue(msg("a2", "k"))
	waits := settlement(n.claimOne("a2"), contract.Wait)
	waits.After = time.Hour
	n.settle(waits)
	e.commit(late)
	e.took(a1, isNew)
	return n
}

func firstTakesAlong[Tx any](e *env[Tx]) {
	n := e.lateBeforeWaiting()
	waits := settlement(n.claimOne("a1"), contract.Wait)
	waits.After = 3 * time.Hour
	n.settle(waits)
	e.enqueue(msg("a3", "k"))
	n.settle(behind(n.claimOne("a3")))
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a2"))...)
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOnly("a1", "a3")
}
