package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPartsAlone (AS-70) builds inbox only, outbox only and both, each with parts of one's own.
//
//test:sessions
func TestPartsAlone(t *testing.T) {
	// Not parallel: it counts goroutines.
	w := plainWorld(t)
	w.pool.Reset()
	before := runtime.NumGoroutine()

	m := waybill.Message{ID: "m", Type: "t", Topic: "t", Source: "s"}
	ran, err := inbox.Process(t.Context(), w.store, "only-inbox", &m, func(ctx context.Context, tx pgx.Tx) error {
		return w.addEffect(ctx, tx, "only-inbox", "m")
	})
	if err != nil || !ran {
		t.Errorf("inbox only: Process() = %v, %v; want it to run", ran, err)
	}

	w.enqueue(t, numbered("m", "orders", 10)...)
	pub := &recorder{}
	r, err := relay.New(w.store, pub, quick(relay.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	stopRelay := run(t, t.Context(), r.Run)
	none := toBilling(silent{})
	c, err := consumer.New(none, none.of, w.store, w.effectHandler("x"), quickConsumer(consumer.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	stopConsumer := run(t, t.Context(), c.Run)
	eventually(t, "outbox only: all are published", func() bool { return len(pub.ids()) == 10 })
	if err := r.Run(t.Context()); err == nil {
		t.Error("a second Run of a relay returned nil")
	}
	stopRelay()
	stopConsumer()
	w.pool.Reset()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// silent is a subscriber that receives nothing.
type silent struct{}

func (silent) Subscribe(ctx context.Context, _ int, _ func(contract.Delivery)) error {
	<-ctx.Done()
	return nil
}

// TestInvalidOptionsAreRefused (AS-70): outbox alone, inbox alone, both; what is invalid is refused, and nothing is
// left running.
//
//test:sessions
func TestInvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	var invalid *waybill.InvalidError
	for field, cfg := range map[string]relay.Config{
		"relay.Config.PollInterval":  {PollInterval: time.Millisecond},
		"relay.Config.BatchSize":     {BatchSize: -1},
		"relay.Config.Parallelism":   {Parallelism: 65},
		"relay.Config.LeaseTTL":      {LeaseTTL: 5 * time.Second},
		"relay.Config.Retention":     {Retention: -2},
		"relay.Config.Mode":          {Mode: 7},
		"relay.Config.ShutdownGrace": {ShutdownGrace: -1},
		"Retry.MaxRetries":           {Retry: waybill.RetryPolicy{MaxRetries: -2}},
	} {
		if _, err := relay.New(w.store, &recorder{}, cfg); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("bad %s: %v, want an InvalidError that names it", field, err)
		}
	}
	none := toBilling(silent{})
	for field, cfg := range map[string]consumer.Config{
		"consumer.Config.Concurrency": {Concurrency: -1},
		"consumer.Config.Prefetch":    {Concurrency: 4, Prefetch: 2},
		"consumer.Config.Order":       {Order: 9},
	} {
		if _, err := consumer.New(none, none.of, w.store, w.effectHandler("x"), cfg); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("bad %s: %v, want an InvalidError that names it", field, err)
		}
	}
	if _, err := consumer.New(none, consumer.Subscription{Topics: []string{"orders"}}, w.store, w.effectHandler("x"), consumer.Config{}); !errors.As(err, &invalid) || invalid.Field != "Subscription.Group" {
		t.Errorf("no group: %v, want an InvalidError that names it", err)
	}
	if _, err := outbox.NewWriter(w.store, outbox.Config{}); !errors.As(err, &invalid) {
		t.Errorf("a writer without source: %v, want an InvalidError", err)
	}
	if _, err := relay.New(w.store, &recorder{}, relay.Config{}); err != nil {
		t.Errorf("the shipped defaults are refused: %v", err)
	}
}

// TestObjectMapperTransaction hands in the *sql.Tx under a transaction of bun. gorm has it in
// Statement.ConnPool, ent under a driver that is opened over one.
//
//test:sessions
//test:pooled
func TestObjectMapperTransaction(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		db, err := sql.Open("pgx", w.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store, err := pgstore.NewSQL(db, pgstore.Config{Schema: w.schema})
		if err != nil {
			t.Fatal(err)
		}
		writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		payload := "with \\ \" { } , NULL and é\n"
		mapper := bun.NewDB(db, pgdialect.New())
		err = mapper.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewRaw("INSERT INTO "+w.table("orders")+" VALUES (?)", "o1").Exec(ctx); err != nil {
				return err
			}
			_, err := writer.Enqueue(ctx, tx.Tx, waybill.Message{ID: "orm", Topic: "orders", Payload: []byte(payload)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		eventually(t, "it is published", func() bool { return pub.count("orm") == 1 })
		pub.mu.Lock()
		defer pub.mu.Unlock()
		for _, m := range pub.sent {
			if m.ID == "orm" && string(m.Payload) != payload {
				t.Errorf("payload = %q, want %q", m.Payload, payload)
			}
		}
	})
}

func TestHealthBeforeRun(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	r, err := relay.New(w.store, &recorder{}, relay.Config{Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if r.Health() == nil {
		t.Error("Health() = nil before Run")
	}
	if s := fmt.Sprint(r.Status().Node); s == "" {
		t.Error("Status() names no node")
	}
}
