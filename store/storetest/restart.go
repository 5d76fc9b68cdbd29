package storetest

import (
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
)

func restartTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"drained to empty, then enqueued", drainThenEnqueue[Tx], nil},
		{"drained to empty, reopened, then enqueued", drainThenReopen[Tx], []need{persists}},
		{"reopened with everything there", reopenFull[Tx], []need{persists}},
	}
}

// drainThenEnqueue: positions never restart, even if the table is empty.
func drainThenEnqueue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 5)...)
	claims := n.claim()
	last := claims[len(claims)-1].Position
	n.settleWith(false, published(claims...)...)
	e.gone("a1", "a2", "a3", "a4", "a5")
	n.claimOnly()
	n.wantAbove(last)
}

// wantAbove enqueues a message, and finds it at a higher position than the given one.
func (n *node[Tx]) wantAbove(position int64) {
	n.Helper()
	n.enqueue(msg("b", "k"))
	if c := n.claimOne("b"); c.Position <= position {
		n.Errorf("position = %d after %d was used, want a higher one", c.Position, position)
	}
}

func drainThenReopen[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msgs("a", "k", 5)...)
	claims := n.claim()
	last := claims[len(claims)-1].Position
	n.settleWith(false, published(claims...)...)
	e.gone("a1", "a2", "a3", "a4", "a5")
	e.reopen()
	n.wantAbove(last)
}

func reopenFull[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.blocked(0)
	e.enqueue(msg("pending", ""), msg("dead", "k2"))
	n.settle(dead(find(n.claim(), "dead")))
	e.process("billing", msg("x", "k"), inbox.Processed)
	e.requeued("billing", msg("y", "k"))
	e.saveAttempt(keyOf("billing", "z"), 2, 0)

	e.reopen()
	e.want(inspect.Pending, "pending")
	e.want(inspect.Dead, "dead")
	n.claimOnly("a1", "pending")
	n.settle(published(find(n.claim(), "a1"))...)
	n.claimOnly("a2", "a3", "a4", "a5", "pending")
	e.process("billing", msg("x", "k"), inbox.Duplicate)
	e.wantRun("billing", true)
	e.wantAttempts(keyOf("billing", "z"), 2)
	if letters := e.letters(deadletter.Filter{}); len(letters) != 1 {
		e.Errorf("%d letters, want the relay's", len(letters))
	}
}
