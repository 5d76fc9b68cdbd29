package storetest

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
)

func endedTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"the error is swallowed", endedSwallowed[Tx], []need{endsTransactions}},
		{"the error is returned", endedReturned[Tx], []need{endsTransactions}},
	}
}

// inTransactions runs fn in a transaction of the store, once for each of its methods that run the
// caller's code. When fn has returned nil the method goes on to store or remove the message with
// the given id, which ends with round.
func (e *env[Tx]) inTransactions(round string, do func(name, id string, run func(fn func(ctx context.Context, tx Tx) error) error)) {
	e.Helper()
	do("Transact", "transact"+round, func(fn func(context.Context, Tx) error) error {
		_, err := e.s.Transact(e.ctx, func(ctx context.Context, tx Tx) (outbox.Batch, error) {
			return outbox.Batch{Messages: []waybill.Message{msg("transact"+round, "k")}}, fn(ctx, tx)
		})
		return err
	})
	do("ProcessOnce", "once"+round, func(fn func(context.Context, Tx) error) error {
		m := msg("once"+round, "k")
		_, err := e.s.ProcessOnce(e.ctx, inbox.RecordOf("billing", &m), fn)
		return err
	})
	if batcher, ok := e.s.(contract.Batcher[Tx]); ok && e.h.Features.InboxBatches {
		do("ProcessBatch", "batch"+round, func(fn func(context.Context, Tx) error) error {
			m := msg("batch"+round, "k")
			_, err := batcher.ProcessBatch(e.ctx, []inbox.Record{inbox.RecordOf("billing", &m)}, func(ctx context.Context, tx Tx, _ []int) error {
				return fn(ctx, tx)
			})
			return err
		})
	}
	e.requeued("shipping"+round, msg("requeued"+round, "k"))
	do("RunRequeued", "requeued"+round, func(fn func(context.Context, Tx) error) error {
		found, err := e.runWith("shipping"+round, func(ctx context.Context, tx Tx, _ *waybill.Message) error { return fn(ctx, tx) })
		if !found {
			e.Fatal("RunRequeued found no letter")
		}
		return err
	})
}

// endedSwallowed makes the caller's code go on as if the transaction that the database has ended
// were still open.
func endedSwallowed[Tx any](e *env[Tx]) {
	e.inTransactions("", func(name, id string, run func(func(context.Context, Tx) error) error) {
		err := run(func(ctx context.Context, tx Tx) error {
			e.effect(tx, "before "+id)
			if e.h.Break(ctx, e.s, tx) == nil {
				e.Fatal("Break has not failed")
			}
			_ = e.h.Effect(ctx, e.s, tx, "after "+id) // a handler that swallows one error may swallow two
			return nil
		})
		if err == nil || waybill.IsUnavailable(err) {
			e.Errorf("%s = %v, want an error, and not that the database is unavailable", name, err)
		}
		e.wantEffects("before "+id, 0)
		if !e.h.Features.KeepsAfterEnd {
			e.wantEffects("after "+id, 0)
		}
	})
	e.wantNowhere("transact")
	e.process("billing", msg("once", "k"), inbox.Processed)
	e.process("billing", msg("batch", "k"), inbox.Processed)
}

// endedReturned makes the caller's code return an error of its own made from that of the database.
// It is about one message, whose attempt counts, and not about the database.
func endedReturned[Tx any](e *env[Tx]) {
	own := errors.New("the handler's own error")
	for _, result := range []error{own, waybill.PermanentError(waybill.ReasonRejected, own)} {
		e.inTransactions(waybill.KindOf(result).String(), func(name, _ string, run func(func(context.Context, Tx) error) error) {
			err := run(func(ctx context.Context, tx Tx) error {
				if e.h.Break(ctx, e.s, tx) == nil {
					e.Fatal("Break has not failed")
				}
				return result
			})
			if !errors.Is(err, own) || waybill.KindOf(err) != waybill.KindOf(result) {
				e.Errorf("%s = %v (%v), want the handler's error as it is (%v)", name, err, waybill.KindOf(err), waybill.KindOf(result))
			}
		})
		e.process("billing", msg("after "+waybill.KindOf(result).String(), "k"), inbox.Processed)
	}
}
