package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
)

func aloneTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"the rest of the key goes on", aloneBlocksNothing[Tx], nil},
		{"what waits behind is released", aloneLetsGo[Tx], nil},
		{"it waits behind nothing", aloneBehindNothing[Tx], nil},
		{"in one batch with others of its key", aloneInBatch[Tx], nil},
		{"in one batch with others of its key that have waited", aloneInWaitingBatch[Tx], nil},
		{"one that returns is waited for in its batch", aloneReturnsInBatch[Tx], nil},
		{"it takes nothing along", aloneTakesNothing[Tx], nil},
		{"it returns to its key", aloneReturns[Tx], nil},
	}
}

// alone is a failed attempt whose retry leaves the order.
func alone(c contract.Claim, after time.Duration) contract.Settlement {
	st := failed(c, after)
	st.Alone = true
	return st
}

func aloneBlocksNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a1", "k"))
	n.settle(alone(n.claimOne("a1"), time.Hour))
	e.enqueue(msg("a2", "k"))
	c := n.claimOne("a2")
	if c.Blocked {
		e.Error("a2 is blocked by a message that waits alone")
	}
	n.settle(failed(c, 2*time.Hour))
	e.advance(time.Hour + time.Second)
	n.settle(alone(n.claimOne("a1"), 2*time.Hour)) // again, while a2 waits
	e.advance(time.Hour)
	n.settle(published(n.claimOne("a2"))...)
	e.advance(time.Hour)
	if c := n.claimOne("a1"); c.Attempts != 2 {
		e.Errorf("attempts = %d, want 2", c.Attempts)
	}
}

func aloneLetsGo[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	n.settle(alone(n.claimOne("a1"), time.Hour))
	n.settle(published(n.claimOnly("a2", "a3", "a4", "a5")...)...)
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOne("a1")
}

func aloneBehindNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(failed(claims[0], time.Hour))
	n.settle(alone(claims[1], 0))
	n.settle(alone(n.claimOne("a2"), 0))
	n.settle(parking(n.claimOne("a2"))) // it has left its key, but the dead letter has the place
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOne("a1")
}

func aloneInBatch[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 4)...)
	claims := n.claimOnly("a1", "a2", "a3", "a4")
	n.settle(alone(claims[0], time.Hour), failed(claims[1], 0), alone(claims[2], 0), behind(claims[3]))
	n.settle(published(n.claimOnly("a2", "a3")...)...)
	n.claimOne("a4")
}

// aloneInWaitingBatch: the first of each key leaves the order that the second returns to, in a batch
// with either of them first. The second waits only for its own delay.
func aloneInWaitingBatch[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(append(msgs("a", "k", 2), msgs("b", "l", 2)...)...)
	claims := n.claimOnly("a1", "a2", "b1", "b2")
	n.settle(failed(find(claims, "a1"), 0), alone(find(claims, "a2"), 0), failed(find(claims, "b1"), 0), alone(find(claims, "b2"), 0))
	claims = n.claimOnly("a1", "a2", "b1", "b2")
	n.settle(alone(find(claims, "a1"), time.Hour), failed(find(claims, "a2"), time.Hour),
		failed(find(claims, "b2"), time.Hour), alone(find(claims, "b1"), time.Hour))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.claimOnly("a1", "a2", "b1", "b2")
}

// aloneReturnsInBatch: a1 returns to the order in the batch in which a2 fails, and is before it.
func aloneReturnsInBatch[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(alone(claims[0], 0), failed(claims[1], 0))
	claims = n.claimOnly("a1", "a2")
	n.settle(failed(claims[1], time.Minute), failed(claims[0], time.Hour))
	e.advance(2 * time.Minute)
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	n.claimOne("a2")
}

// aloneTakesNothing: a1 was not at fault, so a head of its key would take the rest along.
func aloneTakesNothing[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 3)...)
	claims := n.claimOnly("a1", "a2", "a3")
	st := settlement(claims[0], contract.Wait)
	st.Alone = true
	n.settle(st, failed(claims[1], time.Hour), behind(claims[2]))
	n.claimOne("a1")
}

// aloneReturns: the policy has changed while a1 waited.
func aloneReturns[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 2)...)
	claims := n.claimOnly("a1", "a2")
	n.settle(alone(claims[0], 0), alone(claims[1], 0))
	claims = n.claimOnly("a1", "a2")
	n.settle(failed(claims[0], time.Hour), behind(claims[1]))
	n.claimOnly()
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOne("a1"))...)
	n.claimOne("a2")
}
