package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
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

// countedStore is a store on a pool whose round trips are counted.
func (w *world) countedStore(t *testing.T) (*pgxpool.Pool, *pgstore.Store[pgx.Tx], *tripCounter) {
	t.Helper()
	pool, counter := w.countedPool(t)
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	return pool, store, counter
}

// TestRoundTrips counts how often a business transaction waits for the server once its
// statements are prepared.
//
//test:sessions
//test:pooled
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	pool, store, counter := w.countedStore(t)
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

// TestQueued: a batch of messages whose handlers queue their statements takes three round trips; a
// statement that fails rolls back all.
//
//test:sessions
func TestQueued(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	_, store, counter := w.countedStore(t)
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	handle := pgstore.Queued(func(ctx context.Context, batch *pgx.Batch, m *waybill.Message) error {
		prepared, err := writer.Prepare(ctx, waybill.Message{ID: "after " + m.ID, Topic: "shipments", Payload: m.Payload})
		if err != nil {
			return err
		}
		batch.Queue("INSERT INTO "+w.table("orders")+" VALUES ($1)", m.ID)
		pgstore.QueueEnqueue(batch, store, prepared, func(outbox.Result) { told++ })
		return nil
	})
	process := func(msgs []waybill.Message) error {
		recs, list := make([]inbox.Record, len(msgs)), make([]*waybill.Message, len(msgs))
		for i := range msgs {
			msgs[i].Source, msgs[i].Type, msgs[i].Tenant = "shop", "order", waybill.DefaultTenant
			recs[i], list[i] = inbox.RecordOf("billing", &msgs[i]), &msgs[i]
		}
		_, err := store.ProcessBatch(t.Context(), recs, func(ctx context.Context, tx pgx.Tx, _ []int) error { return handle(ctx, tx, list) })
		return err
	}
	var trips int64
	for try := range 2 { // the first prepares statements
		before := counter.n.Load()
		if err := process(numbered(fmt.Sprintf("queued %d ", try), "orders", 100)); err != nil {
			t.Fatal(err)
		}
		trips = counter.n.Load() - before
	}
	if trips != 3 || told != 200 {
		t.Errorf("100 messages took %d round trips, %d results were sent, want 3 (BEGIN with the gate, all handlers, COMMIT) and 200", trips, told)
	}
	w.exec(t, "INSERT INTO "+w.table("orders")+" VALUES ('failing 1')")
	if err := process(numbered("failing ", "orders", 3)); err == nil || !strings.Contains(err.Error(), "orders_pkey") {
		t.Errorf("a statement that fails: %v", err)
	}
	for table, want := range map[string]int{"orders": 201, "outbox": 200, "inbox": 200} {
		if n := w.number(t, "SELECT count(*) FROM "+w.table(table)); n != want {
			t.Errorf("%d rows in %s, want %d", n, table, want)
		}
	}
}
