package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
)

func inboxTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"first delivery, redelivery", processTwice[Tx], nil},
		{"another payload", processConflict[Tx], nil},
		{"many that were there, in a row", processInARow[Tx], nil},
		{"extra data", processExtra[Tx], nil},
		{"handler fails", processFails[Tx], nil},
		{"handler panics", processPanics[Tx], nil},
		{"context ends in the handler", processCancelled[Tx], nil},
		{"fifty deliveries of one message at once", processAtOnce[Tx], nil},
		{"random deliveries at once, in one order", processHistory[Tx], nil},
		{"a concurrent delivery waits for the outcome", processWaits[Tx], nil},
		{"a concurrent delivery of a handler that fails", processWaitsFailed[Tx], nil},
		{"two messages at once", processTwoAtOnce[Tx], []need{concurrentWriters}},
		{"every part of the key counts", processKeys[Tx], nil},
		{"parts of the key are not run together", processKeyJoins[Tx], nil},
		{"idempotency key", processIdempotencyKey[Tx], nil},
		{"handler enqueues", processEnqueues[Tx], nil},
		{"handler enqueues and fails", processEnqueuesFails[Tx], nil},
	}
}

// process delivers m to a consumer whose handler writes an effect named like the message.
func (e *env[Tx]) process(consumer string, m waybill.Message, want inbox.Outcome) {
	e.Helper()
	e.processRecord(inbox.RecordOf(consumer, &m), want)
}

func (e *env[Tx]) processRecord(rec inbox.Record, want inbox.Outcome) {
	e.Helper()
	ran := false
	var got inbox.Outcome
	e.must(repeatConflicts(func() (err error) {
		got, err = e.s.ProcessOnce(e.ctx, rec, func(ctx context.Context, tx Tx) error {
			ran = true
			return e.h.Effect(ctx, e.s, tx, rec.MessageID)
		})
		return err
	}), "ProcessOnce")
	if got != want {
		e.Fatalf("ProcessOnce(%s) = %v, want %v", rec.MessageID, got, want)
	}
	if ran != (want == inbox.Processed) {
		e.Fatalf("handler ran = %v with the outcome %v", ran, got)
	}
}

func processTwice[Tx any](e *env[Tx]) {
	e.process("billing", msg("a", "k"), inbox.Processed)
	e.process("billing", msg("a", "k"), inbox.Duplicate)
	e.process("billing", msg("b", "k"), inbox.Processed)
	e.wantEffects("a", 1)
	e.wantEffects("b", 1)
}

func processConflict[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.process("billing", m, inbox.Processed)
	other := m
	other.Payload = []byte("another")
	e.process("billing", other, inbox.Conflict)
	e.process("billing", m, inbox.Duplicate)
	e.wantEffects("a", 1)
}

// processInARow delivers recorded messages one after the other, for which a store may look for the
// record first.
func processInARow[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	other := m
	other.Payload = []byte("another")
	e.process("billing", m, inbox.Processed)
	e.bury("billing", msg("dead", "k"))
	for range 2 {
		e.process("billing", m, inbox.Duplicate)
		e.process("billing", other, inbox.Conflict)
		e.process("billing", msg("dead", "k"), inbox.Dead)
	}
	retried := inbox.RecordOf("billing", &m)
	retried.Retried = true
	e.saveAttempt(retried.Key, 1, 0)
	e.processRecord(retried, inbox.Duplicate)
	e.wantAttempts(retried.Key, 0)
	e.process("billing", msg("b", "k"), inbox.Processed)
	e.process("billing", msg("b", "k"), inbox.Duplicate)
	e.process("shipping", m, inbox.Processed)
	e.wantEffects("a", 2)
	e.wantEffects("b", 1)
	e.wantEffects("dead", 0)
}

func processExtra[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	rec := inbox.RecordOf("billing", &m)
	rec.Extra = json.RawMessage(`{"by": "O'Neil", "n": 1}`)
	e.processRecord(rec, inbox.Processed)
	e.processRecord(rec, inbox.Duplicate)
}

func processFails[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	cause := waybill.PermanentError(waybill.ReasonRejected, errors.New("card expired"))
	_, err := e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
		e.effect(tx, "a")
		return cause
	})
	if !errors.Is(err, cause) || !waybill.IsPermanent(err) {
		e.Errorf("ProcessOnce() = %v, want the handler's error with its kind", err)
	}
	e.wantEffects("a", 0)
	e.process("billing", m, inbox.Processed)
	e.wantEffects("a", 1)
}

func processPanics[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	recovered := recoverFrom(func() {
		_, _ = e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
			e.effect(tx, "a")
			panicWith("boom")
			return nil
		})
	})
	if recovered != "boom" {
		e.Errorf("ProcessOnce panicked with %v, want the handler's panic", recovered)
	}
	e.wantEffects("a", 0)
	e.process("billing", m, inbox.Processed)
}

func processCancelled[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	ctx, cancel := context.WithCancel(e.ctx)
	_, err := e.s.ProcessOnce(ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
		e.effect(tx, "a")
		cancel()
		return nil
	})
	if err == nil {
		e.Error("ProcessOnce() = nil although its context had ended before the commit")
	}
	e.process("billing", m, inbox.Processed)
	e.wantEffects("a", 1)
}

func processAtOnce[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	var processed, duplicates atomic.Int32
	e.concurrently(50, func(int) error {
		return repeatConflicts(func() error {
			outcome, err := e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
				return e.h.Effect(ctx, e.s, tx, "a")
			})
			switch {
			case err != nil:
			case outcome == inbox.Processed:
				processed.Add(1)
			case outcome == inbox.Duplicate:
				duplicates.Add(1)
			}
			return err
		})
	})
	if processed.Load() != 1 || duplicates.Load() != 49 {
		e.Errorf("processed %d, duplicates %d, want 1 and 49", processed.Load(), duplicates.Load())
	}
	e.wantEffects("a", 1)
}

// soon returns a channel that fires after the time for which a test checks that nothing happens.
func (e *env[Tx]) soon() <-chan time.Time { return time.After(100 * time.Millisecond) }

// rival delivers m while another handler of it runs, which ends with the given error, and
// returns the rival's outcome.
func (e *env[Tx]) rival(m waybill.Message, first error) inbox.Outcome {
	e.Helper()
	type answer struct {
		outcome inbox.Outcome
		err     error
	}
	answers := make(chan answer, 1)
	var ended atomic.Bool
	_, err := e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
		e.effect(tx, "a")
		begun := make(chan struct{})
		go func() {
			close(begun)
			var a answer
			a.err = repeatConflicts(func() (err error) {
				a.outcome, err = e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
					if !ended.Load() {
						return errors.New("the handler runs while another one handles the same message")
					}
					return e.h.Effect(ctx, e.s, tx, "a")
				})
				return err
			})
			answers <- a
		}()
		<-begun
		select {
		case a := <-answers:
			e.Errorf("the rival got %v, %v before the first had ended", a.outcome, a.err)
			answers <- a
		case <-e.soon():
		}
		ended.Store(true)
		return first
	})
	if !errors.Is(err, first) {
		e.Fatalf("ProcessOnce() = %v, want %v", err, first)
	}
	a := <-answers
	e.must(a.err, "the rival's ProcessOnce")
	return a.outcome
}

func processWaits[Tx any](e *env[Tx]) {
	if got := e.rival(msg("a", "k"), nil); got != inbox.Duplicate {
		e.Errorf("the rival's outcome = %v, want duplicate", got)
	}
	e.wantEffects("a", 1)
}

func processWaitsFailed[Tx any](e *env[Tx]) {
	if got := e.rival(msg("a", "k"), errors.New("card expired")); got != inbox.Processed {
		e.Errorf("the rival's outcome = %v, want processed: the first rolled back", got)
	}
	e.wantEffects("a", 1)
}

func processTwoAtOnce[Tx any](e *env[Tx]) {
	a := msg("a", "k")
	_, err := e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &a), func(context.Context, Tx) error {
		e.process("billing", msg("b", "k"), inbox.Processed)
		return nil
	})
	e.must(err, "ProcessOnce")
}

func processKeys[Tx any](e *env[Tx]) {
	base := msg("a", "k")
	e.process("billing", base, inbox.Processed)
	tenant, source, typ := base, base, base
	tenant.Tenant = "other"
	source.Source = "other"
	typ.Type = "order.cancelled"
	e.process("shipping", base, inbox.Processed)
	e.process("billing", tenant, inbox.Processed)
	e.process("billing", source, inbox.Processed)
	e.process("billing", typ, inbox.Processed)
	version := base
	version.Type += "@v2"
	e.process("billing", version, inbox.Duplicate) // the alias has no version
	for _, m := range []waybill.Message{base, tenant, source, typ} {
		e.process("billing", m, inbox.Duplicate)
	}
	e.wantEffects("a", 5)
}

func processKeyJoins[Tx any](e *env[Tx]) {
	for _, k := range []inbox.Key{
		{Tenant: "a", Consumer: "b", Source: "c", Alias: "d", Message: "e"},
		{Tenant: "ab", Consumer: "", Source: "c", Alias: "d", Message: "e"},
		{Tenant: "a", Consumer: "bc", Source: "", Alias: "d", Message: "e"},
		{Tenant: "a", Consumer: "b", Source: "c|d", Alias: "", Message: "e"},
		{Tenant: "a", Consumer: "b", Source: "c", Alias: "d|e", Message: ""},
		{Tenant: "A", Consumer: "b", Source: "c", Alias: "d", Message: "e"},
		{Tenant: "a", Consumer: "b", Source: "c", Alias: "d", Message: "e "},
		{Tenant: "a", Consumer: "b", Source: "c", Alias: "d", Message: "é"},
		{Tenant: "a", Consumer: "b", Source: "c", Alias: "d", Message: "e\u0301"},
	} {
		e.processRecord(inbox.Record{Key: k, MessageID: "id", Type: "t", PayloadHash: "h"}, inbox.Processed)
		e.processRecord(inbox.Record{Key: k, MessageID: "id", Type: "t", PayloadHash: "h"}, inbox.Duplicate)
	}
}

func processIdempotencyKey[Tx any](e *env[Tx]) {
	a, b, other := msg("a", "k"), msg("b", "k"), msg("c", "k")
	a.IdempotencyKey, b.IdempotencyKey, other.IdempotencyKey = "pay-1", "pay-1", "pay-1"
	b.Payload = a.Payload
	other.Type = "refund"
	e.process("billing", a, inbox.Processed)
	e.process("billing", b, inbox.Duplicate)
	e.process("billing", other, inbox.Processed)
}

// handleAndEnqueue handles a message by enqueueing another, and returns the handler's error.
func (e *env[Tx]) handleAndEnqueue(m, reply waybill.Message, result error) {
	e.Helper()
	_, err := e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), func(ctx context.Context, tx Tx) error {
		e.wantNew(e.enqueueIn(tx, false, reply), true)
		return result
	})
	if !errors.Is(err, result) {
		e.Fatalf("ProcessOnce() = %v, want %v", err, result)
	}
}

func processEnqueues[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.handleAndEnqueue(msg("a", "k"), msg("reply", "k"), nil)
	e.want(inspect.Pending, "reply")
	n.claimOne("reply")
}

func processEnqueuesFails[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.handleAndEnqueue(msg("a", "k"), msg("reply", "k"), errors.New("card expired"))
	e.wantNowhere("reply")
	n.claimOnly()
	e.handleAndEnqueue(msg("a", "k"), msg("reply", "k"), nil)
	n.claimOne("reply")
}
