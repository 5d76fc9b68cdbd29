package demo

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
)

// Order is an order of the shop, and the payload of its event.
type Order struct {
	Number   int    `json:"number"`
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

// orderPlaced is the event that the shop publishes for an order.
var orderPlaced = waybill.NewEventType[Order]("order.placed", 1)

const (
	shopSource = "shop"
	customers  = 50
)

// Topic is the topic of the shop's orders.
const Topic = "orders"

// The tables of the business. Those of effects have no unique key, on purpose: a duplicate
// effect must be visible.
var businessTables = []string{
	`CREATE TABLE orders (number INTEGER PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)`,
	`CREATE TABLE invoices (number INTEGER NOT NULL, cents INTEGER NOT NULL)`,
	`CREATE TABLE parcels (number INTEGER NOT NULL, customer TEXT NOT NULL)`,
}

// message returns the event of an order. Events of one customer keep their order.
func (o Order) message() (waybill.Message, error) {
	m, err := orderPlaced.New(Topic, o)
	m.Key, m.Subject = o.Customer, strconv.Itoa(o.Number)
	return m, err
}

// insert writes the business row, and reports whether it is new: a commit of a process that
// was killed may take effect after the next one has checked what is missing.
func (o Order) insert(ctx context.Context, tx *sql.Tx, place *place) (bool, error) {
	result, err := tx.ExecContext(ctx, place.sql(`INSERT INTO orders (number, customer, cents) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`),
		o.Number, o.Customer, o.Cents)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// shop places orders until each number exists once. A shop that was killed is started again
// and places what is missing.
type shop struct {
	place       *place
	orders      int
	sell        func(ctx context.Context, o Order) error
	afterCommit func()
}

// runShop is the main function of the shop's process.
func runShop(ctx context.Context, t task) error {
	place, err := openPlace(ctx, t.Site)
	if err != nil {
		return err
	}
	defer place.close()
	s := &shop{place: place, orders: t.Orders, afterCommit: killSelfAfter(t.DieAfter)}
	if t.Break == BreakOutbox {
		broker, err := t.Site.broker(ctx)
		if err != nil {
			return err
		}
		defer broker.Close()
		s.sell = s.commitThenPublish(twice{broker.Publisher()})
	} else {
		writer, err := outbox.NewWriter(place.store, outbox.Config{Source: shopSource, Observer: quiet})
		if err != nil {
			return err
		}
		s.sell = s.commitWithMessage(writer)
	}
	return s.run(ctx)
}

// commitWithMessage is how waybill is used: the order and its message commit together.
func (s *shop) commitWithMessage(writer *outbox.Writer[*sql.Tx]) func(context.Context, Order) error {
	return func(ctx context.Context, o Order) error {
		_, err := writer.InTx(ctx, func(ctx context.Context, tx *sql.Tx, rec *outbox.Recorder) error {
			isNew, err := o.insert(ctx, tx, s.place)
			if err != nil || !isNew {
				return err
			}
			m, err := o.message()
			rec.Record(m)
			return err
		})
		if err == nil {
			s.afterCommit()
		}
		return err
	}
}

// commitThenPublish is what people do without an outbox: a process that dies between the
// two has saved the order and never publishes it.
func (s *shop) commitThenPublish(pub contract.Publisher) func(context.Context, Order) error {
	return func(ctx context.Context, o Order) error {
		tx, err := s.place.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		isNew, err := o.insert(ctx, tx, s.place)
		if err != nil || !isNew {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		s.afterCommit()
		return publish(ctx, pub, o)
	}
}

func publish(ctx context.Context, pub contract.Publisher, o Order) error {
	m, err := o.message()
	if err != nil {
		return err
	}
	m.Source = shopSource
	m.Complete()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return pub.Send(ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()[0]
}

// run places the orders that are missing, several concurrently.
func (s *shop) run(ctx context.Context) error {
	missing, err := s.missing(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var clerks sync.WaitGroup
	for range s.place.concurrency() {
		clerks.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(missing) {
					return
				}
				if err := s.sell(ctx, newOrder(missing[i])); err != nil {
					cancel(fmt.Errorf("place order %d: %w", missing[i], err))
				}
			}
		})
	}
	clerks.Wait()
	return context.Cause(ctx)
}

// newOrder returns the order with a number, always the same.
func newOrder(number int) Order {
	return Order{Number: number, Customer: fmt.Sprintf("customer-%d", number*7%customers), Cents: 100 + number*37%10_000}
}

// missing returns the numbers of the orders that are still to be placed.
func (s *shop) missing(ctx context.Context) ([]int, error) {
	rows, err := s.place.db.QueryContext(ctx, `SELECT number FROM orders`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	placed := make(map[int]bool)
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		placed[n] = true
	}
	var missing []int
	for n := 1; n <= s.orders; n++ {
		if !placed[n] {
			missing = append(missing, n)
		}
	}
	return missing, rows.Err()
}
