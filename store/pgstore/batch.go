package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
)

// Queued returns a handler of batches, for consumer.NewBatch and service.ConsumeBatch, that runs the
// statements for all messages of a batch in one round trip. It calls h for each message, in order; h
// queues its queries in batch, which is sent after the last call. Their callbacks then receive the
// results, one after the other. [QueueEnqueue] may be one of them.
//
// The first error, of h, a statement or a callback, is returned, and nothing after it runs. It rolls
// the batch back like that of any handler of batches. Queued returns nil if h is nil.
func Queued(h func(ctx context.Context, batch *pgx.Batch, m *waybill.Message) error) func(ctx context.Context, tx pgx.Tx, msgs []*waybill.Message) error {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx, msgs []*waybill.Message) error {
		batch := &pgx.Batch{}
		for _, m := range msgs {
			if err := h(ctx, batch, m); err != nil {
				return err
			}
		}
		if batch.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, batch).Close()
	}
}

// QueueEnqueue puts the enqueue of p, from [outbox.Writer.Prepare], into the caller's own
// batch: one statement, which travels with the others. The caller sends batch in the
// transaction that the messages belong to; a batch that is sent outside of one is a
// transaction of its own.
//
// done is called with the result while the results of the batch are closed, as for every
// query with a callback: the caller must not read this one's result itself. It is not called
// if the statement or one before it fails; Close then returns that error. It runs before the commit,
// and the result that it receives holds if that succeeds. done may be nil. If p has no messages,
// nothing is queued or called.
//
// A store does not learn of the commit. [outbox.Writer.Wake] may be called after it.
func QueueEnqueue(batch *pgx.Batch, store *Store[pgx.Tx], p outbox.Prepared, done func(outbox.Result)) {
	if len(p.Messages) == 0 {
		return
	}
	tell := func(isNew []bool) {
		if r := p.Stored(isNew); done != nil {
			done(r)
		}
	}
	sql, args, told := store.engine.enqueues.statement(p.Batch)
	query := batch.Queue(sql, args...)
	if !told {
		query.Exec(func(tag pgconn.CommandTag) error {
			tell(allNew(p.Messages, tag.RowsAffected()))
			return nil
		})
		return
	}
	query.Query(func(rows pgx.Rows) error {
		isNew, err := readNew(p.Messages, rows, nil)
		if err != nil {
			return err
		}
		tell(isNew)
		return nil
	})
}
