package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

// Counter is a number that the database draws for each row.
type Counter string

// The counters of a store.
const (
	Positions   Counter = "outbox"
	DeadLetters Counter = "dead_letters"
)

func counterTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"the last positions", lastPositions[Tx], []need{counts}},
		{"a late commit at the last positions", lastPositionsLate[Tx], []need{counts, concurrentWriters}},
		{"the last numbers of dead letters", lastLetters[Tx], []need{counts}},
	}
}

// wantSpent wants an enqueue to fail, with an error that is not worth repeating.
func (e *env[Tx]) wantSpent(m waybill.Message) {
	e.Helper()
	tx := e.begin()
	_, err := e.s.EnqueueMessages(e.ctx, tx, outbox.Batch{Messages: []waybill.Message{m}})
	e.rollback(tx)
	if err == nil || waybill.IsConflict(err) {
		e.Errorf("EnqueueMessages() behind the last position = %v, want an error, and no conflict", err)
	}
	e.Logf("behind the last position: %v", err)
}

// lastPositions: messages leave in order up to the last position, also behind one that has failed, and later
// enqueues return an error.
func lastPositions[Tx any](e *env[Tx]) {
	const left = 30
	n := e.join("r1")
	e.h.Exhaust(e.T, e.s, Positions, left)
	var want []string
	for i := range left {
		m := msg(fmt.Sprintf("m%02d", i), fmt.Sprint("k", i%3))
		e.enqueue(m)
		want = append(want, m.ID)
	}
	e.wantSpent(msg("too late", ""))
	var list []contract.Settlement
	var held []string
	for _, c := range n.claimOnly(want...) {
		switch {
		case c.Message.Key != "k2":
			list = append(list, published(c)...)
			continue
		case len(held) == 0:
			list = append(list, failed(c, time.Hour))
		default:
			list = append(list, behind(c))
		}
		held = append(held, c.Message.ID)
	}
	n.settle(list...)
	n.claimOnly()
	e.advance(2 * time.Hour)
	if got := n.publishAll(); !slices.Equal(got, held) {
		e.Errorf("published %v, want %v", got, held)
	}
	e.wantSpent(msg("too late", ""))
	e.wantNowhere("too late")
}

// lastPositionsLate: a transaction that has drawn a position and commits after later ones is not skipped.
func lastPositionsLate[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.h.Exhaust(e.T, e.s, Positions, 3)
	tx := e.begin()
	e.enqueueIn(tx, false, msg("late", "k"))
	e.enqueue(msg("a", "k2"))
	e.enqueue(msg("last", "k3"))
	n.settle(published(n.claimOnly("a", "last")...)...)
	n.claimOnly()
	e.commit(tx)
	n.settle(published(n.claimOne("late"))...)
	e.want(inspect.Published, "late", "a", "last")
}

// lastLetters: a message of which no dead letter can be stored stays where it is, and others are published.
func lastLetters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.h.Exhaust(e.T, e.s, DeadLetters, 1)
	e.enqueue(msg("first", "k1"))
	e.enqueue(msg("second", "k2"))
	e.enqueue(msg("other", "k3"))
	claims := n.claimOnly("first", "second", "other")
	n.settle(dead(find(claims, "first")))
	_, err := e.s.SettleMessages(e.ctx, contract.SettleRequest{Node: n.name, Archive: true, Settlements: []contract.Settlement{dead(find(claims, "second"))}})
	if err == nil || waybill.IsConflict(err) {
		e.Errorf("SettleMessages() of a dead letter without a number = %v, want an error, and no conflict", err)
	}
	e.Logf("behind the last number: %v", err)
	n.settle(published(find(claims, "other"))...)
	e.want(inspect.Dead, "first")
	e.want(inspect.Pending, "second")
	if got := len(e.letters(deadletter.Filter{})); got != 1 {
		e.Errorf("%d dead letters, want the one that had a number", got)
	}
}
