package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/store/pgstore"
)

// world is a separate database with the tables of waybill.
type world struct {
	*bench
	name  string // of the database, and of the stream or queue if there is one
	url   string
	pool  *pgxpool.Pool
	store *pgstore.Store[pgx.Tx]
}

// inWorld creates a world, calls do, and removes the world.
func (b *bench) inWorld(ctx context.Context, do func(*world) error) error {
	w, err := b.newWorld(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	return do(w)
}

func (b *bench) newWorld(ctx context.Context) (*world, error) {
	w := &world{bench: b, name: newName()}
	var err error
	if w.url, err = databaseURL(b.postgres, w.name); err != nil {
		return nil, err
	}
	if _, err := b.take(ctx, w.name); err != nil {
		return nil, err
	}
	if _, err := b.admin.Exec(ctx, "CREATE DATABASE "+w.name+" TEMPLATE template0"); err != nil {
		b.giveBack(w.name)
		return nil, err
	}
	if w.pool, err = openPool(ctx, w.url, 0, nil); err == nil {
		if w.store, err = pgstore.New(w.pool, pgstore.Config{}); err == nil {
			_, err = w.store.Migrate(ctx, pgstore.MigrateOptions{Source: "bench"})
		}
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// openPool opens a pool of up to size connections, pgx's default if 0.
func openPool(ctx context.Context, url string, size int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if size > 0 {
		cfg.MaxConns, cfg.MinConns = int32(size), int32(size)
	}
	cfg.ConnConfig.Tracer = tracer
	return pgxpool.NewWithConfig(ctx, cfg)
}

func (w *world) close() {
	if w.pool != nil {
		w.pool.Close()
	}
	w.drop(w.name)
}

func (w *world) exec(ctx context.Context, sql string, args ...any) error {
	if _, err := w.pool.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%.60s …: %w", strings.TrimSpace(sql), err)
	}
	return nil
}

// one returns the value of a query that returns one.
func one[T any](ctx context.Context, w *world, sql string, args ...any) (v T, err error) {
	err = w.pool.QueryRow(ctx, sql, args...).Scan(&v)
	return v, err
}

// fillSQL enqueues one message for each key, in their order. The ids are new in each run:
// JetStream drops duplicates.
const fillSQL = `
INSERT INTO waybill.outbox (id, topic, key, source, payload_bytes)
SELECT gen_random_uuid()::text, '` + topic + `', 'k' || k, 'bench', $2 FROM unnest($1::int[]) WITH ORDINALITY AS i(k, n) ORDER BY n`

// chunk is how many rows one statement writes.
const chunk = 50_000

// fill enqueues n messages whose keys follow a Zipf distribution.
func (w *world) fill(ctx context.Context, n int) error {
	keys := zipfKeys(n, w.keys)
	payload := make([]byte, w.payload)
	for len(keys) > 0 {
		part := keys[:min(chunk, len(keys))]
		keys = keys[len(part):]
		if err := w.exec(ctx, fillSQL, part, payload); err != nil {
			return err
		}
	}
	return nil
}

// left returns how many messages are in the outbox.
func (w *world) left(ctx context.Context) (int, error) {
	return one[int](ctx, w, "SELECT count(*) FROM waybill.outbox")
}
