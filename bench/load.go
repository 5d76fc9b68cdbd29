package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

const (
	businessTableSQL = `CREATE TABLE IF NOT EXISTS business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL)`
	businessSQL      = `INSERT INTO business (customer, amount) VALUES ($1, $2)`

	// handSQL is what a team would write to store messages in this table by hand.
	handSQL = `
INSERT INTO waybill.outbox (id, topic, key, type, source, tenant, payload_bytes, content_type, time)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
)

// outgoing generates messages to enqueue.
type outgoing struct {
	payload []byte
	n       atomic.Int64
}

// key returns one of 1,000 keys, in rotation.
func (o *outgoing) key() string { return "k" + number(float64(o.n.Add(1)%1000)) }

func (o *outgoing) message() waybill.Message {
	return waybill.Message{Topic: topic, Key: o.key(), Payload: o.payload}
}

// writers are business transactions of several kinds on one pool.
type writers struct {
	outgoing
	pool   *pgxpool.Pool
	writer *outbox.Writer[pgx.Tx]
}

// writers opens a pool of size connections at the URL and makes the business table.
func (w *world) writers(ctx context.Context, url string, size int) (*writers, error) {
	if err := w.exec(ctx, businessTableSQL); err != nil {
		return nil, err
	}
	pool, err := openPool(ctx, url, size, nil)
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{})
	if err == nil {
		var writer *outbox.Writer[pgx.Tx]
		if writer, err = outbox.NewWriter(store, outbox.Config{Source: "bench", Observer: quiet}); err == nil {
			return &writers{outgoing: outgoing{payload: make([]byte, w.payload)}, pool: pool, writer: writer}, nil
		}
	}
	pool.Close()
	return nil, err
}

func (l *writers) business(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, businessSQL, "a customer", 4711)
	return err
}

// plain is the business transaction without a message.
func (l *writers) plain(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error { return l.business(ctx, tx) })
}

func (l *writers) handArgs() []any {
	return []any{uuid.Must(uuid.NewV7()).String(), topic, l.key(), topic, "bench", "default", l.payload, "application/json", time.Now()}
}

// byHand stores the message in a separate round trip.
func (l *writers) byHand(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if err := l.business(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, handSQL, l.handArgs()...)
		return err
	})
}

// byHandWithCommit sends the message and COMMIT in one round trip.
func (l *writers) byHandWithCommit(ctx context.Context) error {
	_, err := l.byHandThen(ctx, "COMMIT")
	return err
}

// byHandNotifying is byHandWithCommit and wakes who publishes by hand. It returns the message's id.
func (l *writers) byHandNotifying(ctx context.Context) (string, error) {
	return l.byHandThen(ctx, "NOTIFY "+wakeChannel, "COMMIT")
}

// byHandThen sends the message and what ends the transaction in one round trip.
func (l *writers) byHandThen(ctx context.Context, then ...string) (id string, _ error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, businessSQL, "a customer", 4711); err != nil {
		return "", err
	}
	batch := &pgx.Batch{}
	args := l.handArgs()
	batch.Queue(handSQL, args...)
	for _, sql := range then {
		batch.Queue(sql)
	}
	return args[0].(string), conn.SendBatch(ctx, batch).Close()
}

// enqueue stores the message in the caller's own transaction.
func (l *writers) enqueue(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if err := l.business(ctx, tx); err != nil {
			return err
		}
		_, err := l.writer.Enqueue(ctx, tx, l.message())
		return err
	})
}

// inTx stores the message through the transaction helper.
func (l *writers) inTx(ctx context.Context) error {
	_, err := l.recorded(ctx)
	return err
}

// inTxWithID is inTx and returns the message's id.
func (l *writers) inTxWithID(ctx context.Context) (string, error) {
	result, err := l.recorded(ctx)
	if err != nil {
		return "", err
	}
	return result.IDs[0], nil
}

func (l *writers) recorded(ctx context.Context) (outbox.Result, error) {
	return l.writer.InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(l.message())
		return l.business(ctx, tx)
	})
}

// flood runs do on several connections, one after the other on each, for some time. It
// returns the successes per second.
func flood(ctx context.Context, connections int, d time.Duration, do func(context.Context) error) (float64, error) {
	var done atomic.Int64
	var first sync.Once
	var failure error
	var all sync.WaitGroup
	began := time.Now()
	for range connections {
		all.Go(func() {
			for time.Since(began) < d {
				if err := do(ctx); err != nil {
					first.Do(func() { failure = err })
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), failure
}
