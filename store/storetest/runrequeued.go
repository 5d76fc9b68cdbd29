package storetest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
)

func runRequeuedTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"nothing requeued", runNothing[Tx], nil},
		{"runs once, and is processed then", runOnce[Tx], nil},
		{"other consumers are left alone", runOthers[Tx], nil},
		{"by rising number", runInOrder[Tx], nil},
		{"fails again", runFails[Tx], nil},
		{"fails for good", runFailsForGood[Tx], nil},
		{"fails because something is down", runUnavailable[Tx], nil},
		{"clashes with another transaction", runConflict[Tx], nil},
		{"panics", runPanics[Tx], nil},
		{"processed meanwhile", runProcessed[Tx], nil},
		{"its record was removed", runForgotten[Tx], nil},
		{"enqueues", runEnqueues[Tx], nil},
		{"many at once", runAtOnce[Tx], nil},
		{"two at once take different letters", runTwoAtOnce[Tx], []need{concurrentWriters}},
	}
}

// requeued buries messages of a consumer and requeues them.
func (e *env[Tx]) requeued(consumer string, list ...waybill.Message) {
	e.Helper()
	for _, m := range list {
		e.bury(consumer, m)
	}
	for _, l := range e.letters(deadletter.Filter{Consumer: consumer}) {
		e.requeue(l.Number, true)
	}
}

// run runs a requeued dead letter of a consumer, whose handler writes an effect named like the
// message and returns result.
func (e *env[Tx]) run(consumer string, result error) (found bool, err error) {
	e.Helper()
	return e.runWith(consumer, func(ctx context.Context, tx Tx, m *waybill.Message) error {
		if err := e.h.Effect(ctx, e.s, tx, m.ID); err != nil {
			return err
		}
		return result
	})
}

// runWith takes a requeued dead letter of a consumer and runs it.
func (e *env[Tx]) runWith(consumer string, handle func(ctx context.Context, tx Tx, m *waybill.Message) error) (found bool, err error) {
	e.Helper()
	r, found, err := e.s.TakeRequeued(e.ctx, consumer, minute)
	if err != nil || !found {
		return false, err
	}
	return e.s.RunRequeued(e.ctx, r, "c1", func(ctx context.Context, tx Tx) error { return handle(ctx, tx, &r.Message) })
}

func (e *env[Tx]) wantRun(consumer string, want bool) {
	e.Helper()
	found, err := e.run(consumer, nil)
	e.must(err, "RunRequeued")
	if found != want {
		e.Fatalf("RunRequeued(%s) = %v, want %v", consumer, found, want)
	}
}

// wantRunFails runs a dead letter whose handler fails with result.
func (e *env[Tx]) wantRunFails(result error) {
	e.Helper()
	found, err := e.run("billing", result)
	if !found || !errors.Is(err, result) {
		e.Fatalf("RunRequeued() = %v, %v, want true and the handler's error", found, err)
	}
	e.wantEffects("a", 0)
}

func runNothing[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", "k")) // not requeued
	e.wantRun("billing", false)
	e.wantRun("nobody", false)
}

func runOnce[Tx any](e *env[Tx]) {
	want := full("a")
	e.requeued("billing", want)
	found, err := e.runWith("billing", func(ctx context.Context, tx Tx, m *waybill.Message) error {
		e.wantMessage(*m, want)
		return e.h.Effect(ctx, e.s, tx, "a")
	})
	if !found || err != nil {
		e.Fatalf("RunRequeued() = %v, %v", found, err)
	}
	e.wantEffects("a", 1)
	e.wantRun("billing", false)
	if letters := e.letters(deadletter.Filter{}); len(letters) != 0 {
		e.Errorf("%d letters are left, want none", len(letters))
	}
	e.process("billing", want, inbox.Duplicate)
	e.wantEffects("a", 1)
}

func runOthers[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.requeued("billing", m)
	e.bury("shipping", m)
	e.wantRun("shipping", false)
	e.wantRun("billing", true)
	e.process("shipping", m, inbox.Dead)
	if l := e.letter(); l.Consumer != "shipping" || l.Requeued {
		e.Errorf("letter = %+v, want shipping's, untouched", l)
	}
	other := m
	other.Tenant = "other"
	e.process("billing", other, inbox.Processed)
}

func runInOrder[Tx any](e *env[Tx]) {
	e.requeued("billing", msgs("a", "k", 3)...)
	for _, want := range []string{"a1", "a2", "a3"} {
		e.wantRun("billing", true)
		e.wantEffects(want, 1)
	}
	e.wantRun("billing", false)
}

func runFails[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	e.wantRunFails(errors.New("card still expired"))
	l := e.letter()
	if l.Requeued || l.Error != "card still expired" || l.Attempts != 7 || l.Reason != waybill.ReasonExhausted || l.Requeues != 1 {
		e.Errorf("letter = %+v, want it dead again with the new error", l)
	}
	e.wantRun("billing", false)
	e.process("billing", msg("a", "k"), inbox.Dead)
	e.requeue(l.Number, true)
	e.wantRun("billing", true)
	e.wantEffects("a", 1)
}

func runFailsForGood[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	e.wantRunFails(waybill.PermanentError(waybill.ReasonUnknownType, errors.New("no handler")))
	if l := e.letter(); l.Requeued || l.Reason != waybill.ReasonUnknownType {
		e.Errorf("letter = %+v, want it dead again with the new reason", l)
	}
}

// wantStill checks that the dead letter is still requeued and runs after a while.
func (e *env[Tx]) wantStill() {
	e.Helper()
	l := e.letter()
	if !l.Requeued || l.Attempts != 6 {
		e.Errorf("letter = %+v, want it still requeued, attempts unchanged", l)
	}
	e.process("billing", msg("a", "k"), inbox.Dead)
	e.advance(time.Minute)
	e.wantRun("billing", true)
	e.wantEffects("a", 1)
}

func runUnavailable[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	e.wantRunFails(waybill.UnavailableError(errors.New("payment service is down")))
	e.wantStill()
}

func runConflict[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	e.wantRunFails(waybill.ConflictError(errors.New("deadlock")))
	e.wantStill()
}

func runPanics[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	recovered := recoverFrom(func() {
		_, _ = e.runWith("billing", func(ctx context.Context, tx Tx, m *waybill.Message) error {
			e.effect(tx, "a")
			panicWith("boom")
			return nil
		})
	})
	if recovered != "boom" {
		e.Errorf("RunRequeued panicked with %v, want the handler's panic", recovered)
	}
	e.wantEffects("a", 0)
	e.process("billing", msg("a", "k"), inbox.Dead)
	e.letter()
}

// runProcessed: the record of the dead letter was removed, and the message was delivered once more.
func runProcessed[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.requeued("billing", m)
	number := e.letter().Number
	e.h.Forget(e.T, e.s, inbox.KeyOf("billing", &m))
	e.process("billing", m, inbox.Processed)
	e.wantRun("billing", true)
	e.wantEffects("a", 1) // only from the delivery
	e.wantRun("billing", false)
	l := e.show(number)
	if l.State != deadletter.Resolved || l.Resolution != deadletter.HadEffect || l.Requeued || l.ResolvedAt == nil {
		e.Errorf("letter = %+v, want it resolved because it had its effect already", l)
	}
	entries := e.audit(deadletter.AuditFilter{Action: deadletter.ActEffect})
	if len(entries) != 1 || entries[0].By != "billing" || entries[0].Letter != number || entries[0].MessageID != "a" {
		e.Errorf("audit log = %+v, want one entry of billing about the letter", entries)
	}
}

func runForgotten[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.requeued("billing", m)
	e.h.Forget(e.T, e.s, inbox.KeyOf("billing", &m))
	e.wantRun("billing", true)
	e.wantEffects("a", 1)
	e.process("billing", m, inbox.Duplicate)
}

func runEnqueues[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.requeued("billing", msg("a", "k"))
	_, err := e.runWith("billing", func(ctx context.Context, tx Tx, m *waybill.Message) error {
		e.enqueueIn(tx, false, msg("reply", "k"))
		return errors.New("card still expired")
	})
	if err == nil {
		e.Fatal("RunRequeued() = nil, want the handler's error")
	}
	e.wantNowhere("reply")
	e.requeue(e.letter().Number, true)
	_, err = e.runWith("billing", func(ctx context.Context, tx Tx, m *waybill.Message) error {
		e.enqueueIn(tx, false, msg("reply", "k"))
		return nil
	})
	e.must(err, "RunRequeued")
	e.want(inspect.Pending, "reply")
	n.claimOne("reply")
}

func runAtOnce[Tx any](e *env[Tx]) {
	list := msgs("a", "k", 12)
	e.requeued("billing", list...)
	e.concurrently(4, func(int) error {
		for {
			found := false
			err := repeatConflicts(func() (err error) {
				found, err = e.run("billing", nil)
				return err
			})
			if err != nil || !found {
				return err
			}
		}
	})
	e.runAll("billing") // those that clashed are run again
	for _, m := range list {
		e.wantEffects(m.ID, 1)
	}
}

func runTwoAtOnce[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"), msg("b", "k"))
	var inside atomic.Int32
	e.concurrently(2, func(int) error {
		return repeatConflicts(func() error {
			_, err := e.runWith("billing", func(ctx context.Context, tx Tx, m *waybill.Message) error {
				inside.Add(1)
				for inside.Load() < 2 && ctx.Err() == nil {
					runtime.Gosched()
				}
				return e.h.Effect(ctx, e.s, tx, m.ID)
			})
			return err
		})
	})
	e.runAll("billing") // those that clashed
	e.wantEffects("a", 1)
	e.wantEffects("b", 1)
}

// runAll runs what is requeued when all leases of it have ended.
func (e *env[Tx]) runAll(consumer string) {
	e.Helper()
	e.advance(time.Minute)
	for found := true; found; {
		var err error
		found, err = e.run(consumer, nil)
		e.must(err, "RunRequeued")
	}
}
