package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// shop is the application: it sells, bills and ships.
type shop struct {
	settings
	name   string // of schema and stream
	wire   *wire
	pool   *pgxpool.Pool
	store  *pgstore.Store[pgx.Tx]
	broker *natsbroker.Broker
	fixed  atomic.Bool // billing knows every currency

	stopSelling  context.CancelFunc
	stopShipping func() error
	ended        []func() error
}

const (
	topic    = "orders"
	poisoned = "in a currency that nobody knows"

	sellEvery    = 20 * time.Millisecond
	slowShipping = 100 * time.Millisecond // a parcel
	fewHandlers  = 2
	manyHandlers = 32
)

func openShop(ctx context.Context, s settings) (sh *shop, err error) {
	sh = &shop{settings: s, name: fmt.Sprintf("incident-%08x", rand.Uint32())}
	defer func() {
		if err != nil {
			_ = sh.close(context.WithoutCancel(ctx)) // the first error counts
		}
	}()
	if sh.wire, err = newWire(s.broker); err != nil {
		return nil, err
	}
	if sh.pool, err = pgxpool.New(ctx, s.store); err != nil {
		return nil, err
	}
	if sh.store, err = pgstore.New(sh.pool, pgstore.Config{Schema: sh.name}); err != nil {
		return nil, err
	}
	if _, err = sh.store.Migrate(ctx, pgstore.MigrateOptions{Source: "shop"}); err != nil {
		return nil, fmt.Errorf("%w (start the servers with: make services)", err)
	}
	_, err = sh.pool.Exec(ctx, sh.sql(`CREATE TABLE {s}.orders (number bigint GENERATED ALWAYS AS IDENTITY, note text);
		CREATE TABLE {s}.invoices (id text, note text); CREATE TABLE {s}.parcels (id text, note text)`))
	if err != nil {
		return nil, err
	}
	sh.broker, err = natsbroker.Open(ctx, natsbroker.Config{URL: "nats://" + sh.wire.address(), Stream: sh.name, SubjectPrefix: sh.name + "."})
	return sh, err
}

// start opens the shop, with billing, and shipping with little concurrency.
func (sh *shop) start(ctx context.Context) error {
	stop, err := sh.serve(ctx, false, "billing", sh.bill, fewHandlers)
	if err != nil {
		return err
	}
	sh.ended = append(sh.ended, stop)
	if sh.stopShipping, err = sh.serve(ctx, true, "shipping", sh.ship, fewHandlers); err != nil {
		return err
	}
	selling, cancel := context.WithCancel(ctx)
	sold := make(chan error, 1)
	go func() { sold <- sh.sell(selling) }()
	sh.stopSelling = cancel
	sh.ended = append(sh.ended, func() error { cancel(); return <-sold })
	return nil
}

// serve runs a consumer, with a relay unless noRelay is set, until the function that it
// returns is called.
func (sh *shop) serve(ctx context.Context, noRelay bool, name string, handle consumer.Handler[pgx.Tx], handlers int) (func() error, error) {
	svc, err := service.New(sh.store, sh.broker, service.Config{
		Source:       "shop",
		DisableRelay: noRelay,
		Observer:     observe.LogTo(slog.New(slog.DiscardHandler)),
		Relay:        relay.Config{LeaseTTL: 3 * time.Second, RenewInterval: 500 * time.Millisecond, PublishTimeout: 2 * time.Second},
		Consumer: consumer.Config{
			Concurrency: handlers, RequeueInterval: time.Second,
			Retry: waybill.RetryPolicy{BaseDelay: 100 * time.Millisecond, MaxDelay: time.Second},
		},
	})
	if err != nil {
		return nil, err
	}
	sub := consumer.Subscription{Group: name, Topics: []string{topic}} // of a stream of the shop's own
	if err := svc.Consume(sub, handle, consumer.Config{}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// hurryShipping restarts shipping with more concurrency.
func (sh *shop) hurryShipping(ctx context.Context) error {
	if err := sh.stopShipping(); err != nil {
		return err
	}
	stop, err := sh.serve(ctx, true, "shipping", sh.ship, manyHandlers)
	sh.stopShipping = stop
	return err
}

// sell commits orders with their messages, one after the other.
func (sh *shop) sell(ctx context.Context) error {
	tick := time.NewTicker(sellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := sh.order(ctx, ""); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (sh *shop) sellPoison(ctx context.Context) error { return sh.order(ctx, poisoned) }

// order writes an order and its message with plain SQL, as a program without the library does.
func (sh *shop) order(ctx context.Context, note string) error {
	_, err := sh.pool.Exec(ctx, sh.sql(`WITH o AS (INSERT INTO {s}.orders (note) VALUES ($1) RETURNING number)
		INSERT INTO {s}.outbox (id, topic, payload, subject) SELECT 'order-' || number, '`+topic+`', '{}', $1 FROM o`), note)
	return err
}

var errCurrency = errors.New("no such currency")

func (sh *shop) bill(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	if m.Subject == poisoned && !sh.fixed.Load() {
		return errCurrency
	}
	_, err := tx.Exec(ctx, sh.sql(`INSERT INTO {s}.invoices VALUES ($1, $2)`), m.ID, m.Subject)
	return err
}

func (sh *shop) ship(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	if err := sleep(ctx, slowShipping); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sh.sql(`INSERT INTO {s}.parcels VALUES ($1, $2)`), m.ID, m.Subject)
	return err
}

// close stops everything and deletes what was created.
func (sh *shop) close(ctx context.Context) error {
	var errs []error
	if sh.wire != nil {
		sh.wire.mend()
		defer sh.wire.close()
	}
	if sh.stopShipping != nil {
		errs = append(errs, sh.stopShipping())
	}
	for _, end := range sh.ended {
		errs = append(errs, end())
	}
	if sh.broker != nil {
		_ = sh.broker.Close() // always nil
		errs = append(errs, sh.deleteStream(ctx))
	}
	if sh.pool != nil {
		_, err := sh.pool.Exec(ctx, sh.sql(`DROP SCHEMA IF EXISTS {s} CASCADE`))
		errs = append(errs, err)
		sh.pool.Close()
	}
	return errors.Join(errs...)
}

func (sh *shop) deleteStream(ctx context.Context) error {
	conn, err := nats.Connect(sh.settings.broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return js.DeleteStream(ctx, sh.name)
}
