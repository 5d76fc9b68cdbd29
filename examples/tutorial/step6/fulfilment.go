package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

type (
	process = saga.Context[pgx.Tx, order]
	rule    = saga.Rule[pgx.Tx, order]
)

const (
	shipParcel = "parcel.ship"
	shipped    = "parcel.shipped"
)

// fulfilment adds the saga of an order, and the warehouse.
func fulfilment(_ context.Context, svc *service.Service[pgx.Tx], store *pgstore.Store[pgx.Tx]) error {
	orders, err := newOrders(store)
	if err != nil {
		return err
	}
	topics := []string{"orders", "payments", "parcels", "fulfilment-own"}
	err = svc.Consume(consumer.Subscription{Group: "fulfilment", Topics: topics}, orders.Handle, consumer.Config{GiveUp: saga.GivesUp})
	if err != nil {
		return err
	}
	return svc.Consume(consumer.Subscription{Group: "warehouse", To: "warehouse"}, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if _, err := tx.Exec(ctx, "INSERT INTO parcels VALUES ($1)", m.Key); err != nil {
			return err
		}
		_, err := svc.Outbox().Enqueue(ctx, tx, waybill.Message{Topic: "parcels", Type: shipped, Key: m.Key})
		return err
	}, consumer.Config{})
}

// newOrders returns the saga: an order is placed, then paid within three days, then shipped.
func newOrders(store *pgstore.Store[pgx.Tx]) (*saga.Saga[pgx.Tx, order], error) {
	s, err := saga.New[pgx.Tx, order](store, saga.Config{Name: "order", Source: "fulfilment", Topic: "fulfilment-own"})
	if err != nil {
		return nil, err
	}
	key := func(m *waybill.Message) (string, error) { return m.Key, nil } // the number of the order

	s.On(placed.Type(), rule{Key: key, Missing: saga.Start, To: []string{"unpaid"}, Do: func(ctx context.Context, c *process, m *waybill.Message) (err error) {
		if *c.Data, err = placed.Decode(m); err != nil {
			return err
		}
		c.Become("unpaid")
		return c.Timeout(ctx, "payment", 72*time.Hour)
	}})
	s.On(paid, rule{Key: key, From: []string{"unpaid"}, To: []string{"paid"}, Do: func(ctx context.Context, c *process, _ *waybill.Message) error {
		c.Become("paid")
		c.Send("warehouse", waybill.Message{Type: shipParcel})
		_, err := c.CancelTimeout(ctx, "payment")
		return err
	}})
	s.On(shipped, rule{Key: key, From: []string{"paid"}, To: []string{"shipped", saga.End}, Do: end("shipped")})
	s.OnTimeout("payment", rule{From: []string{"unpaid"}, To: []string{"cancelled", saga.End}, Do: end("cancelled")})
	return s, nil
}

// end completes the instance in a state.
func end(state string) saga.Do[pgx.Tx, order] {
	return func(_ context.Context, c *process, _ *waybill.Message) error {
		c.Become(state)
		c.Complete()
		return nil
	}
}
