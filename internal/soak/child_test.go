//go:build unix

package soak

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
)

// childEnv holds the settings of a process of a system, which is this test binary again.
const childEnv = "WAYBILL_SOAK_CHILD"

func TestMain(m *testing.M) {
	if settings := os.Getenv(childEnv); settings != "" {
		os.Exit(runChild(settings))
	}
	os.Exit(m.Run())
}

const (
	// retention is how long published messages are kept, and streamAge how long NATS keeps them: longer than anything is away,
	// and short enough that the tables stop growing. Inbox records are kept for longer than that: a server that was killed may
	// deliver all of its stream again.
	retention = 10 * time.Minute
	streamAge = 2 * retention
	// maxBacklog is how many orders may wait for their effect in a long soak before producers rest.
	maxBacklog = 5_000
	// txTimeout bounds a transaction of a producer.
	txTimeout = 30 * time.Second
)

// child is what a process is to do.
type child struct {
	Role          string // one of roles
	Slot          int    // of producers: which half of the keys is theirs
	Store, Broker string // URLs
	Rabbit        bool   // or NATS
	Backlog       int    // producers rest while more orders wait for their effect

	HandlerTimeout time.Duration // of consumers; 0 for the default
}

var roles = map[string]func(child, context.Context, *sql.DB, opener.SQLStore) error{
	"producer": child.produce, "relay": child.relay, "consumer": child.consume,
}

// runChild is the main function of a process. It ends with its standard input, so that it never outlives who has
// started it.
func runChild(settings string) int {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // there is trouble all the time
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
		cancel()
	}()
	var c child
	err := json.Unmarshal([]byte(settings), &c)
	if err == nil {
		err = c.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Role, err)
		return 1
	}
	return 0
}

// patiently calls open until it succeeds.
func patiently(ctx context.Context, open func() error) error {
	err := open()
	for ; err != nil && ctx.Err() == nil; err = open() {
		loop.Sleep(ctx, 100*time.Millisecond)
	}
	return err
}

func (c child) run(ctx context.Context) error {
	db, store, err := openStore(ctx, c.Store)
	if err != nil {
		return err
	}
	return roles[c.Role](c, ctx, db, store)
}

// openStore opens the store of a URL as soon as it is there.
func openStore(ctx context.Context, url string) (db *sql.DB, store opener.SQLStore, err error) {
	err = patiently(ctx, func() (err error) {
		db, store, err = opener.OpenSQL(ctx, opener.StoreConfig{URL: url, Schema: "waybill"})
		return err
	})
	return db, store, err
}

// open opens the broker as soon as it is there.
func (c child) open(ctx context.Context) (b service.Broker, err error) {
	err = patiently(ctx, func() (err error) {
		if c.Rabbit {
			b, err = rabbitbroker.Open(ctx, rabbitbroker.Config{URL: c.Broker, SingleActiveConsumer: true})
			return err
		}
		b, err = natsbroker.Open(ctx, natsbroker.Config{URL: c.Broker, MaxAge: streamAge})
		return err
	})
	return b, err
}

// produce commits orders, each with its message. The answer to a transaction does not matter: an order is there
// with its message or not at all.
func (c child) produce(ctx context.Context, db *sql.DB, store opener.SQLStore) error {
	w, err := outbox.NewWriter(store, outbox.Config{Source: "soak"})
	if err != nil {
		return err
	}
	l := ledger{db}
	for n := 0; ctx.Err() == nil; n++ {
		if n%20 == 0 {
			for orders, effects, err := l.patientTotals(ctx); err == nil && orders-effects > c.Backlog; orders, effects, err = l.patientTotals(ctx) {
				loop.Sleep(ctx, 50*time.Millisecond)
			}
		}
		if err := place(ctx, w, 2*perTx*rand.IntN(keys/2/perTx)+c.Slot*perTx); err != nil {
			loop.Sleep(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

// place commits the next orders of the keys from first on.
func place(ctx context.Context, w *outbox.Writer[*sql.Tx], first int) error {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	_, err := w.InTx(ctx, func(ctx context.Context, tx *sql.Tx, rec *outbox.Recorder) error {
		numbers, err := order(ctx, tx, first)
		for i, n := range numbers {
			rec.Record(waybill.Message{ID: fmt.Sprintf("%d-%d", first+i, n), Topic: "orders", Key: fmt.Sprint(first + i), Payload: []byte(`{}`)})
		}
		return err
	})
	return err
}

func (c child) relay(ctx context.Context, _ *sql.DB, store opener.SQLStore) error {
	return c.serve(ctx, store, service.Config{Relay: relay.Config{Retention: retention, CleanupInterval: 30 * time.Second}}, nil)
}

func (c child) consume(ctx context.Context, _ *sql.DB, store opener.SQLStore) error {
	return c.serve(ctx, store, service.Config{DisableRelay: true}, func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
		var key, number int
		if _, err := fmt.Sscanf(m.ID, "%d-%d", &key, &number); err != nil {
			return err
		}
		return handle(ctx, tx, key, number)
	})
}

// serve runs a service, with the consumer of orders if there is a handler.
func (c child) serve(ctx context.Context, store opener.SQLStore, cfg service.Config, h consumer.Handler[*sql.Tx]) error {
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	cfg.Source = "soak"
	cfg.Consumer.AllowShortRetention = true // a relay's retries could take longer, and do not: nothing is away for long here
	cfg.Janitor = janitor.Config{InboxRetention: 2 * streamAge, CleanupInterval: 30 * time.Second}
	svc, err := service.New(store, b, cfg)
	if err != nil {
		return err
	}
	if h != nil {
		if err := svc.Consume(billing, h, consumer.Config{Order: consumer.OrderByKey, HandlerTimeout: c.HandlerTimeout}); err != nil {
			return err
		}
	}
	if err := svc.Run(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return errors.New("has ended by itself")
	}
	return nil
}

var billing = consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
