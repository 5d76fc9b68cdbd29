package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

func enqueueTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"transaction commits", enqueueCommits[Tx], nil},
		{"transaction rolls back", enqueueRollsBack[Tx], nil},
		{"function fails", transactFails[Tx], nil},
		{"function panics", transactPanics[Tx], nil},
		{"function ends the context", transactCancelled[Tx], nil},
		{"nothing to enqueue", enqueueNothing[Tx], nil},
		{"a thousand messages in one call", enqueueThousand[Tx], nil},
		{"several calls in one transaction", enqueueCalls[Tx], nil},
		{"ids that were made for them", enqueueFresh[Tx], nil},
		{"many transactions at once", enqueueAtOnce[Tx], nil},
	}
}

func enqueueCommits[Tx any](e *env[Tx]) {
	n := e.join("r1")
	tx := e.begin()
	e.effect(tx, "order")
	list := msgs("a", "k", 2)
	isNew := e.enqueueIn(tx, false, list...)
	if !slices.Equal(isNew, []bool{true, true}) {
		e.Fatalf("new = %v, want all true", isNew)
	}
	e.commit(tx)
	e.took(list, isNew)

	e.wantEffects("order", 1)
	e.want(inspect.Pending, "a1", "a2")
	n.claimOnly("a1", "a2")
}

// enqueueFresh: messages with generated ids, which need no check, are stored in order, are in their lanes, and
// are found later.
func enqueueFresh[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for _, b := range []outbox.Batch{
		{Messages: msgs("one", "k", 1), Fresh: true},
		{Messages: msgs("several", "k", 3), Fresh: true},
		{Messages: msgs("remembered", "", 2), Fresh: true, Remember: true},
	} {
		tx := e.begin()
		isNew, err := e.s.EnqueueMessages(e.ctx, tx, b)
		e.must(err, "EnqueueMessages")
		e.commit(tx)
		if slices.Contains(isNew, false) {
			e.Errorf("new = %v, want all true", isNew)
		}
		e.took(b.Messages, isNew)
		want := ids(b.Messages)
		if isNew = e.transact(b.Remember, b.Messages...); slices.Contains(isNew, true) {
			e.Errorf("new = %v the second time, want none", isNew)
		}
		n.settle(published(n.claimOnly(want...)...)...)
		if isNew = e.transact(b.Remember, b.Messages...); slices.Contains(isNew, b.Remember) {
			e.Errorf("remembered %v: new = %v once published", b.Remember, isNew)
		}
		n.settle(published(n.next(allRows)...)...)
	}
}

func enqueueRollsBack[Tx any](e *env[Tx]) {
	n := e.join("r1")
	tx := e.begin()
	e.effect(tx, "order")
	e.enqueueIn(tx, false, msgs("a", "k", 2)...)
	e.rollback(tx)

	e.wantEffects("order", 0)
	e.wantNowhere("a1", "a2")
	n.claimOnly()

	e.enqueue(msg("a1", "k")) // the id is free again
	n.claimOnly("a1")
}

func transactFails[Tx any](e *env[Tx]) {
	cause := errors.New("out of stock")
	_, err := e.s.Transact(e.ctx, func(ctx context.Context, tx Tx) (outbox.Batch, error) {
		e.effect(tx, "order")
		e.enqueueIn(tx, false, msg("a", "k"))
		return outbox.Batch{Messages: msgs("b", "k", 1)}, cause
	})
	if !errors.Is(err, cause) {
		e.Errorf("Transact() = %v, want the function's error", err)
	}
	e.wantEffects("order", 0)
	e.wantNowhere("a", "b1")
}

func transactPanics[Tx any](e *env[Tx]) {
	recovered := recoverFrom(func() {
		_, _ = e.s.Transact(e.ctx, func(ctx context.Context, tx Tx) (outbox.Batch, error) {
			e.effect(tx, "order")
			e.enqueueIn(tx, false, msg("a", "k"))
			panicWith("boom")
			return outbox.Batch{}, nil
		})
	})
	if recovered != "boom" {
		e.Errorf("Transact panicked with %v, want the function's panic", recovered)
	}
	e.wantEffects("order", 0)
	e.wantNowhere("a")
	e.enqueue(msg("a", "k")) // neither a lock nor a connection was left behind
}

// recoverFrom returns what fn panics with.
func recoverFrom(fn func()) (recovered any) {
	defer func() { recovered = recover() }()
	fn()
	return nil
}

// panicWith panics: it stands for a bug in a user's function.
func panicWith(v any) { panic(v) }

func transactCancelled[Tx any](e *env[Tx]) {
	ctx, cancel := context.WithCancel(e.ctx)
	_, err := e.s.Transact(ctx, func(ctx context.Context, tx Tx) (outbox.Batch, error) {
		e.effect(tx, "order")
		cancel()
		return outbox.Batch{Messages: msgs("a", "k", 1)}, nil
	})
	if err == nil {
		e.Error("Transact() = nil although its context had ended before the commit")
	}
	e.eventually("the rollback", func() bool { return e.h.Effects(e.T, e.s, "order") == 0 })
	e.wantNowhere("a1")
	e.enqueue(msg("a1", "k"))
}

func enqueueNothing[Tx any](e *env[Tx]) {
	tx := e.begin()
	if isNew := e.enqueueIn(tx, false); len(isNew) != 0 {
		e.Errorf("new = %v, want none", isNew)
	}
	e.effect(tx, "order")
	e.commit(tx)
	e.transact(false)
	e.wantEffects("order", 1)
}

func enqueueThousand[Tx any](e *env[Tx]) {
	n := e.join("r1")
	list := msgs("a", "", 1000)
	e.enqueue(list...)
	claims := n.claim()
	positions := make(map[string]int64, len(claims))
	for i := range claims {
		positions[claims[i].Message.ID] = claims[i].Position
	}
	if len(positions) != len(list) {
		e.Fatalf("claimed %d messages, want %d", len(positions), len(list))
	}
	for i := 1; i < len(list); i++ {
		if before, at := positions[list[i-1].ID], positions[list[i].ID]; before >= at {
			e.Fatalf("position of message %d is %d, of the one before it %d; want the order of the slice", i, at, before)
		}
	}
}

func enqueueCalls[Tx any](e *env[Tx]) {
	n := e.join("r1")
	tx := e.begin()
	for _, id := range []string{"a", "b", "c"} {
		m := msg(id, "k")
		e.took([]waybill.Message{m}, e.enqueueIn(tx, false, m))
	}
	e.commit(tx)
	n.claimOnly("a", "b", "c")
}

func enqueueAtOnce[Tx any](e *env[Tx]) {
	const writers, each = 8, 10
	n := e.join("r1")
	e.concurrently(writers, func(w int) error {
		for i := range each {
			m := msg(string(rune('a'+w))+string(rune('0'+i)), "k")
			err := repeatConflicts(func() error {
				_, err := e.s.Transact(e.ctx, func(context.Context, Tx) (outbox.Batch, error) {
					return outbox.Batch{Messages: []waybill.Message{m}}, nil
				})
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	claims := n.claim()
	if len(claims) != writers*each {
		e.Errorf("claimed %d messages, want %d", len(claims), writers*each)
	}
	last := make(map[byte]string)
	for _, id := range claimedIDs(claims) {
		if id < last[id[0]] {
			e.Errorf("message %s came after %s, which its writer committed later", id, last[id[0]])
		}
		last[id[0]] = id
	}
}

// concurrently runs fn n times at once and fails the test with the first error.
func (e *env[Tx]) concurrently(n int, fn func(i int) error) {
	e.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- fn(i) }()
	}
	for range n {
		if err := <-errs; err != nil {
			e.Error(err)
		}
	}
	if e.Failed() {
		e.FailNow()
	}
}

// repeatConflicts repeats fn for as long as it clashes with others, as callers do.
func repeatConflicts(fn func() error) error {
	for {
		if err := fn(); !waybill.IsConflict(err) {
			return err
		}
	}
}
