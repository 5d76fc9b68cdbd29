package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// tripCounter counts round trips: how often a client writes that has read an answer since it
// wrote last.
type tripCounter struct{ n atomic.Int64 }

func (c *tripCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &countedConn{Conn: conn, counter: c}, err
}

type countedConn struct {
	net.Conn
	counter *tripCounter
	asked   atomic.Bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	if !c.asked.Swap(true) {
		c.counter.n.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.asked.Store(false)
	}
	return n, err
}

// countedPool is a pool of one connection whose round trips are counted.
func (w *world) countedPool(t *testing.T) (*pgxpool.Pool, *tripCounter) {
	t.Helper()
	counter := &tripCounter{}
	cfg, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	cfg.ConnConfig.DialFunc = counter.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, counter
}

// TestRoundTrips counts how often a business transaction waits for the server once its
// statements are prepared.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pool, counter := w.countedPool(t)
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	sqlStore, err := pgstore.NewSQL(db, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	sqlWriter, err := outbox.NewWriter(sqlStore, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO " + w.table("orders") + " VALUES ($1)"
	for _, tc := range []struct {
		name string
		want int64
		run  func(id string, msgs []waybill.Message) error
	}{
		{"InTx on pgx: BEGIN, INSERT, enqueue with COMMIT", 3, func(id string, msgs []waybill.Message) error {
			_, err := writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
				rec.Record(msgs...)
				_, err := tx.Exec(ctx, insert, id)
				return err
			})
			return err
		}},
		{"InTx on database/sql: BEGIN, INSERT, enqueue, COMMIT", 4, func(id string, msgs []waybill.Message) error {
			_, err := sqlWriter.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, rec *outbox.Recorder) error {
				rec.Record(msgs...)
				_, err := tx.ExecContext(ctx, insert, id)
				return err
			})
			return err
		}},
		{"Enqueue: BEGIN, enqueue, COMMIT", 3, func(_ string, msgs []waybill.Message) error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := writer.Enqueue(t.Context(), tx, msgs...)
				return err
			})
		}},
		{"a batch of one's own: all at once", 1, func(id string, msgs []waybill.Message) error {
			prepared, err := writer.Prepare(t.Context(), msgs...)
			if err != nil {
				return err
			}
			batch := &pgx.Batch{}
			batch.Queue(insert, id)
			pgstore.QueueEnqueue(batch, store, prepared, nil)
			return pool.SendBatch(t.Context(), batch).Close()
		}},
	} {
		for _, size := range []int{1, 100} {
			var trips int64
			for try := range 2 { // the first prepares statements
				id := fmt.Sprintf("%s %d %d ", tc.name, size, try)
				before := counter.n.Load()
				if err := tc.run(id, numbered(id, "orders", size)); err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
				trips = counter.n.Load() - before
			}
			if trips != tc.want {
				t.Errorf("%s: %d messages took %d round trips, want %d", tc.name, size, trips, tc.want)
			}
		}
	}
	if n, want := w.number(t, "SELECT count(*) FROM "+w.table("outbox")), 4*2*101; n != want {
		t.Errorf("%d messages are stored, want %d", n, want)
	}
}
