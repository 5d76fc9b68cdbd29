package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// world is a schema of its own with a backlog.
type world struct {
	settings
	name  string // of schema, stream and exchange
	pool  *pgxpool.Pool
	store *pgstore.Store[pgx.Tx]
}

func newWorld(ctx context.Context, s settings) (*world, error) {
	pool, err := pgxpool.New(ctx, s.postgres)
	if err != nil {
		return nil, err
	}
	w := &world{settings: s, name: fmt.Sprintf("bench%08x", rand.Uint32()), pool: pool}
	if w.store, err = pgstore.New(pool, pgstore.Config{Schema: w.name}); err == nil {
		_, err = w.store.Migrate(ctx, pgstore.MigrateOptions{})
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) close() {
	// The schema may not be there; the pool ends in any case.
	_, _ = w.pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+w.name+" CASCADE")
	w.pool.Close()
}

// fill enqueues the backlog: keys follow a Zipf distribution, ids are new in each run,
// because JetStream drops those that it has seen. In the end it runs prepare, if given.
func (w *world) fill(ctx context.Context, prepare string) error {
	writer, err := outbox.NewWriter(w.store, outbox.Config{Source: "bench", Observer: quiet})
	if err != nil {
		return err
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(w.keys-1))
	payload := make([]byte, w.size)
	const batch = 1000
	for done := 0; done < w.messages; done += batch {
		msgs := make([]waybill.Message, min(batch, w.messages-done))
		for i := range msgs {
			msgs[i] = waybill.Message{Topic: "orders", Key: fmt.Sprintf("k%d", zipf.Uint64()), Payload: payload}
		}
		err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			_, err := writer.Enqueue(ctx, tx, msgs...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if prepare != "" {
		if _, err := w.pool.Exec(ctx, strings.ReplaceAll(prepare, "{outbox}", w.name+".outbox")); err != nil {
			return err
		}
	}
	_, err = w.pool.Exec(ctx, "VACUUM ANALYZE "+w.name+".outbox")
	return err
}

// empty reports whether nothing is left to publish.
func (w *world) empty(ctx context.Context) (bool, error) {
	var any bool
	err := w.pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+w.name+".outbox)").Scan(&any)
	return !any, err
}
