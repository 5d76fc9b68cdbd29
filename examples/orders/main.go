// Command orders runs a process of three steps: goods are reserved, the bank is asked for the
// money, the goods are shipped. Of three orders one is paid, one is refused, and for one the
// bank never answers; the steps of those two are compensated. Everything is kept in memory:
//
//	go run ./examples/orders
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
)

type (
	tx    = *memstore.Tx // with PostgreSQL: pgx.Tx
	order struct {
		Amount int      `json:"amount"`
		Did    []string `json:"did"`
	}
	process = saga.Context[tx, order]
	rule    = saga.Rule[tx, order]
	step    = saga.Step[tx, order]
)

var (
	placed   = waybill.NewEventType[order]("order.placed", 1)
	charge   = waybill.NewEventType[order]("payment.charge", 1)
	answered = waybill.NewEventType[bool]("payment.answered", 1)
)

// newOrders returns the saga.
func newOrders(store saga.Store[tx]) *saga.Saga[tx, order] {
	s := must(saga.New[tx, order](store, saga.Config{Name: "orders", Source: "shop", Topic: "orders-own", Observer: quiet}))
	key := func(m *waybill.Message) (string, error) { return m.Key, nil } // the number of the order

	s.On(placed.Type(), rule{Key: key, Missing: saga.Start, To: []string{"placed"}, Do: func(_ context.Context, c *process, m *waybill.Message) (err error) {
		if !c.New {
			return nil // a second message about an order that has started
		}
		c.Become("placed")
		*c.Data, err = placed.Decode(m)
		return err
	}})
	s.On(answered.Type(), rule{Key: key, Do: func(ctx context.Context, c *process, m *waybill.Message) error {
		paid, err := answered.Decode(m)
		if err != nil {
			return err
		}
		if !paid {
			_, err := c.Fail(ctx, "charge", errors.New("the bank has refused"))
			return err
		}
		if waited, err := c.Done(ctx, "charge"); !waited {
			return err
		}
		return did("charged")(ctx, c)
	}})
	s.Steps(
		step{Name: "reserve", Execute: did("reserved"), Compensate: did("released")},
		step{Name: "charge", Wait: true, Timeout: 2 * time.Second, Execute: askBank, Compensate: did("refunded")},
		step{Name: "ship", Execute: did("shipped")},
	)
	s.OnEnd(func(_ context.Context, c *process) error {
		c.Publish("outcomes", waybill.Message{Subject: strings.TrimSpace(fmt.Sprintf("%s %v %s", c.Status(), c.Data.Did, c.Error()))})
		return nil
	})
	return s
}

// did records that something was done. A real step would write rows with c.Tx, or call somebody.
func did(what string) func(context.Context, *process) error {
	return func(_ context.Context, c *process) error {
		c.Data.Did = append(c.Data.Did, what)
		return nil
	}
}

// askBank sends a command, which commits together with the record that the step has started.
func askBank(_ context.Context, c *process) error {
	m, err := charge.New("", *c.Data)
	c.Send("bank", m)
	return err
}

// bank pays up to 100, refuses up to 1000, and does not know what to say to more.
func bank(shop *service.Service[tx]) consumer.Handler[tx] {
	return func(ctx context.Context, tx tx, m *waybill.Message) error {
		o, err := charge.Decode(m)
		if err != nil || o.Amount > 1000 {
			return err
		}
		answer, err := answered.New("orders", o.Amount <= 100)
		if err != nil {
			return err
		}
		answer.Key = m.Key
		_, err = shop.Outbox().Enqueue(ctx, tx, answer)
		return err
	}
}

var quiet = observe.LogTo(slog.New(slog.DiscardHandler))

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store := memstore.New()
	shop := must(service.New(store, membroker.New(), service.Config{Source: "shop", Observer: quiet}))
	orders := newOrders(store)
	must(0, shop.Consume(consumer.Subscription{Group: "orders", Topics: []string{"orders", "orders-own"}}, orders.Handle,
		consumer.Config{GiveUp: saga.GivesUp}))
	must(0, shop.Consume(consumer.Subscription{Group: "bank", To: "bank"}, bank(shop), consumer.Config{}))
	ended := 0
	must(0, shop.Consume(consumer.Subscription{Group: "outcomes", Topics: []string{"outcomes"}}, func(_ context.Context, _ tx, m *waybill.Message) error {
		fmt.Printf("order %s: %s\n", m.Key, m.Subject)
		if ended++; ended == 3 {
			stop()
		}
		return nil
	}, consumer.Config{Concurrency: 1}))

	t := must(store.Begin(ctx))
	for i, amount := range []int{50, 500, 5000} {
		m := must(placed.New("orders", order{Amount: amount}))
		m.Key = fmt.Sprint("o-", i+1)
		must(shop.Outbox().Enqueue(ctx, t, m))
	}
	t.Commit()
	must(0, shop.Run(ctx))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
