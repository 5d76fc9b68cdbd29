package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

func inboxBatchTests[Tx any]() []test[Tx] {
	batches := []need{inboxBatches}
	return []test[Tx]{
		{"all new", batchAllNew[Tx], batches},
		{"some were there before", batchMixed[Tx], batches},
		{"none is new", batchNoneNew[Tx], batches},
		{"nothing to do", batchEmpty[Tx], batches},
		{"handler fails", batchFails[Tx], batches},
		{"handler panics", batchPanics[Tx], batches},
		{"attempts are cleared", batchClearsAttempts[Tx], batches},
		{"attempts are kept if the handler fails", batchKeepsAttempts[Tx], batches},
		{"extra data, hostile texts", batchTexts[Tx], batches},
		{"messages of many kinds", batchKinds[Tx], []need{inboxBatches, wordyInbox}},
		{"a key twice, too many records", batchInvalid[Tx], batches},
		{"a concurrent batch waits for the outcome", batchWaits[Tx], batches},
		{"two batches in opposite order", batchOpposite[Tx], []need{inboxBatches, concurrentWriters}},
		{"a thousand records", batchLarge[Tx], batches},
	}
}

func (e *env[Tx]) batcher() contract.Batcher[Tx] {
	e.Helper()
	b, ok := any(e.s).(contract.Batcher[Tx])
	if !ok {
		e.Fatal("the store has no batches, and Features.InboxBatches says that it has")
	}
	return b
}

func recordsOf(list ...waybill.Message) []inbox.Record {
	recs := make([]inbox.Record, len(list))
	for i := range list {
		recs[i] = inbox.RecordOf("billing", &list[i])
	}
	return recs
}

// processBatch delivers recs to a handler that writes an effect named like each message, and
// checks the outcomes and what the handler was given.
func (e *env[Tx]) processBatch(recs []inbox.Record, want ...inbox.Outcome) {
	e.Helper()
	var ran []int
	var got []inbox.Outcome
	e.must(repeatConflicts(func() (err error) {
		ran = nil
		got, err = e.batcher().ProcessBatch(e.ctx, recs, func(ctx context.Context, tx Tx, fresh []int) error {
			ran = append(ran, fresh...)
			return e.effectsOf(ctx, tx, recs, fresh)
		})
		return err
	}), "ProcessBatch")
	if !slices.Equal(got, want) {
		e.Fatalf("ProcessBatch() = %v, want %v", got, want)
	}
	var fresh []int
	for i, outcome := range want {
		if outcome == inbox.Processed {
			fresh = append(fresh, i)
		}
	}
	if !slices.Equal(ran, fresh) {
		e.Fatalf("the handler was given the places %v, want %v, once", ran, fresh)
	}
}

func (e *env[Tx]) effectsOf(ctx context.Context, tx Tx, recs []inbox.Record, places []int) error {
	for _, i := range places {
		if err := e.h.Effect(ctx, e.s, tx, recs[i].MessageID); err != nil {
			return err
		}
	}
	return nil
}

func all(outcome inbox.Outcome, n int) []inbox.Outcome {
	return slices.Repeat([]inbox.Outcome{outcome}, n)
}

func batchAllNew[Tx any](e *env[Tx]) {
	e.processBatch(recordsOf(msg("c", "k"), msg("a", "k"), msg("b", "k")), all(inbox.Processed, 3)...)
	for _, id := range []string{"a", "b", "c"} {
		e.wantEffects(id, 1)
		e.process("billing", msg(id, "k"), inbox.Duplicate)
	}
	e.process("shipping", msg("a", "k"), inbox.Processed)
}

func batchMixed[Tx any](e *env[Tx]) {
	buried := msg("dead", "k")
	stored, err := e.s.BuryMessage(e.ctx, inbox.Letter{Record: inbox.RecordOf("billing", &buried), Message: buried, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1})
	if err != nil || !stored {
		e.Fatalf("BuryMessage() = %v, %v", stored, err)
	}
	e.process("billing", msg("seen", "k"), inbox.Processed)
	e.process("billing", msg("other", "k"), inbox.Processed)
	other := msg("other", "k")
	other.Payload = []byte("another")
	e.processBatch(recordsOf(msg("z", "k"), other, buried, msg("b", "k"), msg("seen", "k"), msg("a", "k")),
		inbox.Processed, inbox.Conflict, inbox.Dead, inbox.Processed, inbox.Duplicate, inbox.Processed)
	for _, id := range []string{"z", "b", "a", "seen", "other"} {
		e.wantEffects(id, 1)
	}
	e.wantEffects("dead", 0)
}

func batchNoneNew[Tx any](e *env[Tx]) {
	recs := recordsOf(msg("b", "k"), msg("a", "k"))
	e.processBatch(recs, all(inbox.Processed, 2)...)
	e.processBatch(recs, all(inbox.Duplicate, 2)...)
	e.wantEffects("a", 1)
}

func batchEmpty[Tx any](e *env[Tx]) { e.processBatch(nil) }

func batchFails[Tx any](e *env[Tx]) {
	e.process("billing", msg("seen", "k"), inbox.Processed)
	recs := recordsOf(msg("b", "k"), msg("seen", "k"), msg("a", "k"))
	cause := waybill.PermanentError(waybill.ReasonRejected, errors.New("card expired"))
	got, err := e.batcher().ProcessBatch(e.ctx, recs, func(ctx context.Context, tx Tx, fresh []int) error {
		e.must(e.effectsOf(ctx, tx, recs, fresh), "Effect")
		return cause
	})
	if !errors.Is(err, cause) || !waybill.IsPermanent(err) || got != nil {
		e.Errorf("ProcessBatch() = %v, %v, want the handler's error with its kind", got, err)
	}
	e.wantEffects("a", 0)
	e.wantEffects("b", 0)
	e.process("billing", msg("a", "k"), inbox.Processed)
	e.process("billing", msg("b", "k"), inbox.Processed)
}

func batchPanics[Tx any](e *env[Tx]) {
	recs := recordsOf(msg("a", "k"), msg("b", "k"))
	recovered := recoverFrom(func() {
		_, _ = e.batcher().ProcessBatch(e.ctx, recs, func(context.Context, Tx, []int) error {
			panicWith("boom")
			return nil
		})
	})
	if recovered != "boom" {
		e.Errorf("ProcessBatch panicked with %v, want the handler's panic", recovered)
	}
	e.processBatch(recs, all(inbox.Processed, 2)...)
}

// retriedRecords returns records of two messages, one of which has failed before.
func (e *env[Tx]) retriedRecords() []inbox.Record {
	e.Helper()
	recs := recordsOf(msg("a", "k"), msg("b", "k"))
	e.saveAttempt(recs[0].Key, 2, 0)
	recs[0].Retried = true
	return recs
}

func batchClearsAttempts[Tx any](e *env[Tx]) {
	recs := e.retriedRecords()
	e.processBatch(recs, all(inbox.Processed, 2)...)
	e.wantAttempts(recs[0].Key, 0)
}

func batchKeepsAttempts[Tx any](e *env[Tx]) {
	recs := e.retriedRecords()
	_, err := e.batcher().ProcessBatch(e.ctx, recs, func(context.Context, Tx, []int) error { return errors.New("card expired") })
	if err == nil {
		e.Error("ProcessBatch() = nil, want the handler's error")
	}
	e.wantAttempts(recs[0].Key, 2)
}

func batchTexts[Tx any](e *env[Tx]) {
	recs := recordsOf(msg("a", "k"), msg("b", "k"), msg("c", "k"))
	recs[0].Extra = []byte(`{"by": "O'Neil", "list": ["{\"", "\\"], "n": 1}`)
	recs[1].Message, recs[1].Source = `{"quoted", \back`, "NULL"
	recs[2].Message, recs[2].Source = "", "ü\n,}"
	e.processBatch(recs, all(inbox.Processed, 3)...)
	for _, rec := range recs {
		e.processRecord(rec, inbox.Duplicate)
	}
	e.processBatch(recs, all(inbox.Duplicate, 3)...)
}

// batchKinds has messages with one id that differ in each other part of their keys, and checks what
// is kept of each.
func batchKinds[Tx any](e *env[Tx]) {
	base := recordsOf(msg("a", "k"))[0]
	recs := slices.Repeat([]inbox.Record{base}, 8)
	recs[1].Tenant = "acme"
	recs[2].Consumer = "shipping"
	recs[3].Source = "till"
	recs[4].Alias, recs[4].Type = "order.paid", "order.paid@v2"
	recs[5].Message, recs[5].MessageID = "the key", "the id"
	recs[6].Message, recs[6].Type = "b", "order.created@v2"
	recs[7].Message, recs[7].Extra, recs[7].PayloadHash = "c", []byte(`{"n": 1}`), base.PayloadHash[1:]+"0"
	e.processBatch(recs[3:6], all(inbox.Processed, 3)...)
	want := slices.Repeat([]inbox.Outcome{inbox.Processed}, 8)
	want[3], want[4], want[5] = inbox.Duplicate, inbox.Duplicate, inbox.Duplicate
	e.processBatch(recs, want...)
	for i, rec := range recs {
		got := e.findRecord(rec.Key, true)
		if got.MessageID != rec.MessageID || got.Type != rec.Type || got.PayloadHash != rec.PayloadHash || (got.Extra != nil) != (rec.Extra != nil) {
			e.Errorf("record %d = %+v, want %+v", i, got.Record, rec)
		}
	}
}

func batchInvalid[Tx any](e *env[Tx]) {
	ran := func(context.Context, Tx, []int) error { return errors.New("the handler ran") }
	twice := recordsOf(msg("a", "k"), msg("b", "k"), msg("a", "other"))
	many := recordsOf(msgs("m", "k", contract.MaxBatch+1)...)
	for _, recs := range [][]inbox.Record{twice, many} {
		var invalid *waybill.InvalidError
		if _, err := e.batcher().ProcessBatch(e.ctx, recs, ran); !errors.As(err, &invalid) {
			e.Errorf("ProcessBatch() of %d records = %v, want an InvalidError", len(recs), err)
		}
	}
	e.process("billing", msg("a", "k"), inbox.Processed)
}

func batchWaits[Tx any](e *env[Tx]) {
	recs := recordsOf(msg("a", "k"), msg("b", "k"))
	type answer struct {
		outcomes []inbox.Outcome
		err      error
	}
	answers := make(chan answer, 1)
	_, err := e.batcher().ProcessBatch(e.ctx, recs[:1], func(ctx context.Context, tx Tx, _ []int) error {
		e.effect(tx, "a")
		go func() {
			var a answer
			a.err = repeatConflicts(func() (err error) {
				a.outcomes, err = e.batcher().ProcessBatch(e.ctx, recs, func(ctx context.Context, tx Tx, fresh []int) error {
					return e.effectsOf(ctx, tx, recs, fresh)
				})
				return err
			})
			answers <- a
		}()
		select {
		case a := <-answers:
			e.Errorf("the rival got %v, %v before the first had ended", a.outcomes, a.err)
			answers <- a
		case <-e.soon():
		}
		return nil
	})
	e.must(err, "ProcessBatch")
	a := <-answers
	if want := []inbox.Outcome{inbox.Duplicate, inbox.Processed}; a.err != nil || !slices.Equal(a.outcomes, want) {
		e.Errorf("the rival got %v, %v, want %v", a.outcomes, a.err, want)
	}
	e.wantEffects("a", 1)
	e.wantEffects("b", 1)
}

// batchOpposite runs batches with the same messages in opposite order concurrently. None may return
// an error: not even the conflict of a deadlock.
func batchOpposite[Tx any](e *env[Tx]) {
	for round := range 5 {
		list := msgs(fmt.Sprintf("r%d-", round), "k", 100)
		forth, back := recordsOf(list...), recordsOf(list...)
		slices.Reverse(back)
		var begin sync.WaitGroup
		begin.Add(2)
		e.concurrently(2, func(n int) error {
			recs := [][]inbox.Record{forth, back}[n]
			begin.Done()
			begin.Wait()
			_, err := e.batcher().ProcessBatch(e.ctx, recs, func(ctx context.Context, tx Tx, fresh []int) error {
				return e.effectsOf(ctx, tx, recs, fresh[:1])
			})
			return err
		})
	}
}

func batchLarge[Tx any](e *env[Tx]) {
	recs := recordsOf(msgs("m", "k", contract.MaxBatch)...)
	outcomes, err := e.batcher().ProcessBatch(e.ctx, recs, func(_ context.Context, _ Tx, fresh []int) error {
		if len(fresh) != len(recs) || !slices.IsSorted(fresh) {
			return fmt.Errorf("the handler was given %d places, want %d, rising", len(fresh), len(recs))
		}
		return nil
	})
	if err != nil || len(outcomes) != len(recs) {
		e.Errorf("ProcessBatch() = %d outcomes, %v", len(outcomes), err)
	}
}
