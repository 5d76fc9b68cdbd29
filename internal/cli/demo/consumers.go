package demo

import (
	"context"
	"database/sql"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/service"
)

// The consumers, and what each does once per order.
const (
	Billing  = "billing"
	Shipping = "shipping"
)

// handlers returns the handler of each consumer. They write in the given transaction, which
// also records the message as processed.
func handlers(p *place) map[string]consumer.Handler[*sql.Tx] {
	return map[string]consumer.Handler[*sql.Tx]{
		Billing: onOrder(func(ctx context.Context, tx *sql.Tx, o Order) error {
			_, err := tx.ExecContext(ctx, p.sql(`INSERT INTO invoices (number, cents) VALUES (?, ?)`), o.Number, o.Cents)
			return err
		}),
		Shipping: onOrder(func(ctx context.Context, tx *sql.Tx, o Order) error {
			_, err := tx.ExecContext(ctx, p.sql(`INSERT INTO parcels (number, customer) VALUES (?, ?)`), o.Number, o.Customer)
			return err
		}),
	}
}

// onOrder is a handler of placed orders, which fails as faults.go specifies.
func onOrder(act func(ctx context.Context, tx *sql.Tx, o Order) error) consumer.Handler[*sql.Tx] {
	mux := consumer.NewMux[*sql.Tx]()
	faults := newHandlerFaults()
	consumer.On(mux, orderPlaced, func(ctx context.Context, tx *sql.Tx, o Order, _ *waybill.Message) error {
		if err := act(ctx, tx, o); err != nil {
			return err
		}
		return faults.of(o) // after the effect, which is rolled back then
	})
	return mux.Serve
}

// consumers are the running consumers billing and shipping.
type consumers struct {
	broker Broker
	cancel context.CancelFunc
	done   chan error
}

// startConsumers starts both, and returns when the broker has a place for their messages.
func startConsumers(ctx context.Context, s *servers, broken string) (*consumers, error) {
	broker, err := s.site.broker(ctx)
	if err != nil {
		return nil, err
	}
	svc, err := newConsumers(s, broker, broken)
	if err != nil {
		_ = broker.Close() // it was never used
		return nil, err
	}
	run, cancel := context.WithCancel(ctx)
	c := &consumers{broker: broker, cancel: cancel, done: make(chan error, 1)}
	go func() { c.done <- svc.Run(run) }()
	if err := s.look.Ready(ctx, broker); err != nil {
		_ = c.stop() // the first error counts
		return nil, err
	}
	return c, nil
}

func newConsumers(s *servers, broker service.Broker, broken string) (*service.Service[*sql.Tx], error) {
	var store service.Store[*sql.Tx] = s.place.store
	if broken == BreakInbox {
		store = withoutInbox{store}
	}
	svc, err := service.New(store, broker, service.Config{
		Source:       shopSource,
		DisableRelay: true, // it has its own process
		Observer:     quiet,
		Consumer: consumer.Config{
			Concurrency: s.place.concurrency(),
			Retry:       waybill.RetryPolicy{BaseDelay: 100 * time.Millisecond, MaxDelay: time.Second},
		},
	})
	if err != nil {
		return nil, err
	}
	for name, handler := range handlers(s.place) {
		sub := consumer.Subscription{Group: s.site.Group(name), Topics: []string{Topic}}
		if err := svc.Consume(sub, handler, consumer.Config{}); err != nil {
			return nil, err
		}
	}
	return svc, nil
}

// stop lets handlers finish and closes the broker.
func (c *consumers) stop() error {
	c.cancel()
	err := <-c.done
	_ = c.broker.Close() // always nil
	return err
}
