package storetest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

func duplicateTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"twice in one call", duplicateInCall[Tx](false), nil},
		{"twice in one call, unique", duplicateInCall[Tx](true), nil},
		{"twice in one transaction", duplicateInTransaction[Tx](false), nil},
		{"twice in one transaction, unique", duplicateInTransaction[Tx](true), nil},
		{"in the outbox", duplicatePending[Tx](false), nil},
		{"in the outbox, unique", duplicatePending[Tx](true), nil},
		{"waiting", duplicateWaiting[Tx](false), nil},
		{"waiting, unique", duplicateWaiting[Tx](true), nil},
		{"waiting for one of its destinations", duplicateFannedOut[Tx], nil},
		{"published", afterPublication[Tx](false, true, true), nil},
		{"published, unique", afterPublication[Tx](true, true, false), nil},
		{"published and not archived", afterPublication[Tx](false, false, true), nil},
		{"published and not archived, unique", afterPublication[Tx](true, false, false), nil},
		{"dead", duplicateDead[Tx](false, true), nil},
		{"dead, unique", duplicateDead[Tx](true, false), nil},
		{"pending when it was to be unique", duplicateRemembered[Tx], nil},
		{"rolled back before, unique", duplicateRolledBack[Tx], nil},
		{"in two transactions at once", duplicateAtOnce[Tx](false), nil},
		{"in two transactions at once, unique", duplicateAtOnce[Tx](true), nil},
	}
}

func (e *env[Tx]) wantNew(got []bool, want ...bool) {
	e.Helper()
	if !slices.Equal(got, want) {
		e.Fatalf("new = %v, want %v", got, want)
	}
}

func duplicateInCall[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		again := msg("a", "k")
		again.Payload = []byte("another")
		e.wantNew(e.transact(unique, msg("a", "k"), msg("b", "k"), again, msg("c", "k")), true, true, false, true)
		claims := n.claimOnly("a", "b", "c")
		if got := string(claims[0].Message.Payload); got == "another" {
			e.Error("the second message with the id was kept, want the first")
		}
	}
}

func duplicateInTransaction[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		tx := e.begin()
		e.wantNew(e.enqueueIn(tx, unique, msg("a", "k")), true)
		e.wantNew(e.enqueueIn(tx, unique, msg("a", "k"), msg("b", "k")), false, true)
		e.effect(tx, "order") // the transaction is still usable
		e.commit(tx)
		e.wantEffects("order", 1)
		n.claimOnly("a", "b")
	}
}

func duplicatePending[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		e.wantNew(e.transact(unique, msg("a", "k")), true)
		tx := e.begin()
		e.wantNew(e.enqueueIn(tx, unique, msg("a", "other"), msg("b", "k")), false, true)
		e.effect(tx, "order")
		e.commit(tx)
		e.wantEffects("order", 1)
		n.claimOnly("a", "b")
	}
}

func duplicateWaiting[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		e.wantNew(e.transact(unique, msg("a", "k")), true)
		n.settle(failed(n.claimOne("a"), time.Hour))
		e.wantNew(e.transact(unique, msg("a", "k"), msg("b", "k")), false, true)
		e.want(inspect.Waiting, "a")
	}
}

func duplicateFannedOut[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(fanout(n.claimOne("a"), "x", "y"))
	claims := n.claim()
	n.settle(published(claims[0])...)
	e.several("a") // published to one, waiting for the other
	e.wantNew(e.transact(false, msg("a", "k")), false)
}

// afterPublication enqueues an id again that was published, with and without its trace in
// the archive. Only Unique remembers it.
func afterPublication[Tx any](unique, archive, want bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		e.wantNew(e.transact(unique, msg("a", "k")), true)
		n.settleWith(archive, published(n.claimOne("a"))...)
		if !archive {
			e.wantNowhere("a")
			e.gone("a")
		}
		e.wantNew(e.transact(unique, msg("a", "k"), msg("b", "k")), want, true)
		if want {
			n.claimOnly("a", "b")
		} else {
			n.claimOnly("b")
		}
	}
}

func duplicateDead[Tx any](unique, want bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		e.wantNew(e.transact(unique, msg("a", "k")), true)
		n.settle(dead(n.claimOne("a")))
		e.wantNew(e.transact(unique, msg("a", "k")), want)
		if letters := e.letters(deadletter.Filter{}); len(letters) != 1 {
			e.Errorf("%d dead letters, want the one from before", len(letters))
		}
	}
}

// duplicateRemembered enqueues ids that are pending, with Unique: they are remembered.
func duplicateRemembered[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(failed(n.claimOne("a"), time.Hour))
	e.enqueue(msg("b", "other"))
	e.wantNew(e.transact(true, msg("a", "k"), msg("b", "other")), false, false)
	e.advance(2 * time.Hour)
	n.settle(published(n.claimOnly("a", "b")...)...)
	e.wantNew(e.transact(true, msg("a", "k"), msg("b", "other")), false, false)
}

func duplicateRolledBack[Tx any](e *env[Tx]) {
	tx := e.begin()
	e.wantNew(e.enqueueIn(tx, true, msg("a", "k")), true)
	e.rollback(tx)
	e.wantNew(e.transact(true, msg("a", "k")), true)
}

func duplicateAtOnce[Tx any](unique bool) func(*env[Tx]) {
	return func(e *env[Tx]) {
		n := e.join("r1")
		var stored atomic.Int32
		e.concurrently(10, func(int) error {
			return repeatConflicts(func() error {
				isNew, err := e.s.Transact(e.ctx, func(context.Context, Tx) (outbox.Batch, error) {
					return outbox.Batch{Messages: []waybill.Message{msg("a", "k"), msg("b", "")}, Remember: unique}, nil
				})
				for _, is := range isNew {
					if is && err == nil {
						stored.Add(1)
					}
				}
				return err
			})
		})
		if got := stored.Load(); got != 2 {
			e.Errorf("%d messages were reported as new, want 2", got)
		}
		n.claimOnly("a", "b")
	}
}
