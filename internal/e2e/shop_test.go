package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// shop says where the processes of a shop have their tables: those of the saga, the depot and the
// bank. They tell each other by messages only.
type shop struct {
	Store  opener.StoreConfig
	Prefix string // of the names of all tables
}

// The shop's tables. Nothing but the inbox keeps a message from being handled twice: a second
// reservation, payment or parcel of an order is an error, and would become a dead letter.
var shopTables = map[string]string{
	"stock":        "pieces integer",
	"accounts":     "name varchar(20) PRIMARY KEY, cents bigint",
	"reservations": "id varchar(50) PRIMARY KEY, state varchar(20), pieces integer",
	"payments":     "id varchar(50) PRIMARY KEY, state varchar(20), cents bigint",
	"parcels":      "id varchar(50) PRIMARY KEY, pieces integer",
}

// What there is before the first order.
const (
	firstPieces = 1_000_000
	firstCents  = 1_000_000_000
)

// purchase is an order, and the data of its saga.
type purchase struct {
	N      int `json:"n"`
	Pieces int `json:"pieces"`
	Cents  int `json:"cents"`
}

func newPurchase(n int) purchase { return purchase{N: n, Pieces: 1 + n%3, Cents: 1000 + 7*n} }

func (p purchase) id() string { return fmt.Sprintf("order-%d", p.N) }

// What some orders meet.
func (p purchase) refused() bool       { return p.N%5 == 1 } // by the bank
func (p purchase) undeliverable() bool { return p.N%7 == 2 }
func (p purchase) answeredLate() bool  { return p.N%8 == 3 } // by the bank, behind the timeout

const (
	bankTimeout = 3 * time.Second
	bankLate    = 5 * time.Second
)

// message returns one of a type about the order.
func (p purchase) message(typ string) waybill.Message {
	payload, err := json.Marshal(p)
	if err != nil {
		panic(err) // three numbers
	}
	return waybill.Message{Type: typ, Key: p.id(), Payload: payload}
}

// Topics of the shop, and which process receives them.
var shopTopics = map[string][]string{"orders": {"placed", "answers", "orders.own"}, "depot": {"depot"}, "bank": {"bank"}}

// desk is one process of a shop while it works.
type desk struct {
	child
	writer    *outbox.Writer[*sql.Tx]
	scheduler *schedule.Scheduler[*sql.Tx]
}

// work runs a process: a relay, and a consumer of its topics.
func (c child) work(ctx context.Context, handler func(d desk, store sagaStore) (consumer.Handler[*sql.Tx], error)) error {
	db, opened, err := opener.OpenSQL(ctx, c.Shop.Store)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := c.Broker.openPatiently(ctx)
	if err != nil {
		return err
	}
	store := opened.(sagaStore)
	svc, err := service.New(store, b, service.Config{Source: c.Role, Relay: c.relayConfig(), Observer: quiet})
	if err != nil {
		return err
	}
	d := desk{child: c, writer: svc.Outbox()}
	if d.scheduler, err = schedule.NewScheduler(store, schedule.Config{Source: c.Role, Observer: quiet}); err != nil {
		return err
	}
	h, err := handler(d, store)
	if err != nil {
		return err
	}
	sub := consumer.Subscription{Group: c.Broker.group(c.Role), Topics: shopTopics[c.Role]}
	if err := svc.Consume(sub, h, quickConsumer(consumer.Config{GiveUp: saga.GivesUp})); err != nil {
		return err
	}
	return svc.Run(ctx)
}

type (
	purchases      = saga.Saga[*sql.Tx, purchase]
	purchaseChange = saga.Context[*sql.Tx, purchase]
	purchaseRule   = saga.Rule[*sql.Tx, purchase]
	purchaseStep   = saga.Step[*sql.Tx, purchase]
)

// orders is the process of the saga.
func (c child) orders(ctx context.Context, _ *pgstore.Store[pgx.Tx]) error {
	return c.work(ctx, func(_ desk, store sagaStore) (consumer.Handler[*sql.Tx], error) {
		s, err := newPurchases(store)
		if err != nil {
			return nil, err
		}
		return s.Handle, nil
	})
}

// newPurchases returns the saga of orders.
func newPurchases(store sagaStore) (*purchases, error) {
	s, err := saga.New[*sql.Tx, purchase](store, saga.Config{Name: "purchases", Source: "orders", Topic: "orders.own", Observer: quiet})
	if err != nil {
		return nil, err
	}
	s.On("placed", purchaseRule{Key: byKey, Missing: saga.Start, Do: func(_ context.Context, c *purchaseChange, m *waybill.Message) error {
		return json.Unmarshal(m.Payload, c.Data)
	}})
	for typ, step := range map[string]string{"reserved": "reserve", "charged": "charge", "shipped": "ship"} {
		s.On(typ, purchaseRule{Key: byKey, Do: func(ctx context.Context, c *purchaseChange, _ *waybill.Message) error {
			_, err := c.Done(ctx, step)
			return err
		}})
	}
	for typ, step := range map[string]string{"refused": "charge", "undeliverable": "ship"} {
		s.On(typ, purchaseRule{Key: byKey, Do: func(ctx context.Context, c *purchaseChange, _ *waybill.Message) error {
			_, err := c.Fail(ctx, step, errors.New(typ))
			return err
		}})
	}
	s.Steps(
		purchaseStep{Name: "reserve", Wait: true, Execute: asking("depot", "reserve"), Compensate: asking("depot", "release")},
		purchaseStep{Name: "charge", Wait: true, Timeout: bankTimeout, Execute: asking("bank", "charge"), Compensate: asking("bank", "refund")},
		purchaseStep{Name: "ship", Wait: true, Execute: asking("depot", "ship")},
	)
	return s, nil
}

// asking sends what is to be done to another process.
func asking(topic, typ string) func(context.Context, *purchaseChange) error {
	return func(_ context.Context, c *purchaseChange) error {
		c.Publish(topic, c.Data.message(typ))
		return nil
	}
}

// exec runs statements in which a name in braces is a table, {id} the order's id, {pieces} and
// {cents} its numbers. Each must change one row.
func (d desk) exec(ctx context.Context, tx *sql.Tx, p purchase, statements ...string) error {
	for _, stmt := range statements {
		stmt = d.Shop.render(stmt, p)
		changed, err := tx.ExecContext(ctx, stmt)
		if err != nil {
			return err
		}
		if n, err := changed.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, fmt.Errorf("%s: %d rows, want 1", stmt, n))
		}
	}
	return nil
}

// answer tells the saga, in the transaction.
func (d desk) answer(ctx context.Context, tx *sql.Tx, p purchase, typ string) error {
	m := p.message(typ)
	m.Topic = "answers"
	_, err := d.writer.Enqueue(ctx, tx, m)
	return err
}

// do runs statements and tells the saga.
func (d desk) do(ctx context.Context, tx *sql.Tx, p purchase, answer string, statements ...string) error {
	if err := d.exec(ctx, tx, p, statements...); err != nil {
		return err
	}
	return d.answer(ctx, tx, p, answer)
}

// depot is the process of the warehouse and the carrier.
func (c child) depot(ctx context.Context, _ *pgstore.Store[pgx.Tx]) error {
	return c.work(ctx, func(d desk, _ sagaStore) (consumer.Handler[*sql.Tx], error) { return d.keepStock, nil })
}

func (d desk) keepStock(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
	var p purchase
	if err := json.Unmarshal(m.Payload, &p); err != nil {
		return err
	}
	switch {
	case m.Type == "reserve":
		return d.do(ctx, tx, p, "reserved",
			"INSERT INTO {reservations} VALUES ('{id}', 'reserved', {pieces})",
			"UPDATE {stock} SET pieces = pieces - {pieces}",
		)
	case m.Type == "release":
		return d.exec(ctx, tx, p,
			"UPDATE {reservations} SET state = 'released' WHERE id = '{id}' AND state = 'reserved'",
			"UPDATE {stock} SET pieces = pieces + {pieces}",
		)
	case p.undeliverable():
		return d.answer(ctx, tx, p, "undeliverable")
	}
	return d.do(ctx, tx, p, "shipped", "INSERT INTO {parcels} VALUES ('{id}', {pieces})")
}

// bank is the process of the bank.
func (c child) bank(ctx context.Context, _ *pgstore.Store[pgx.Tx]) error {
	return c.work(ctx, func(d desk, _ sagaStore) (consumer.Handler[*sql.Tx], error) { return d.keepAccounts, nil })
}

func (d desk) keepAccounts(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
	var p purchase
	if err := json.Unmarshal(m.Payload, &p); err != nil {
		return err
	}
	var state string
	err := tx.QueryRowContext(ctx, d.Shop.render("SELECT state FROM {payments} WHERE id = '{id}'", p)).Scan(&state)
	if err != nil && err != sql.ErrNoRows {
		return err
	}
	if m.Type == "refund" {
		return d.refund(ctx, tx, p, state)
	}
	switch {
	case state == "void": // the refund was faster
		return nil
	case p.refused():
		return d.answer(ctx, tx, p, "refused")
	}
	err = d.exec(ctx, tx, p,
		"INSERT INTO {payments} VALUES ('{id}', 'charged', {cents})",
		"UPDATE {accounts} SET cents = cents - {cents} WHERE name = 'customers'",
		"UPDATE {accounts} SET cents = cents + {cents} WHERE name = 'shop'",
	)
	switch {
	case err != nil:
		return err
	case p.answeredLate():
		late := p.message("charged")
		late.Topic = "answers"
		_, err = d.scheduler.After(ctx, tx, late, bankLate)
		return err
	}
	return d.answer(ctx, tx, p, "charged")
}

// refund gives the money back. A payment that comes behind it finds that it is void; one at the
// same time makes this an error, and it is tried again.
func (d desk) refund(ctx context.Context, tx *sql.Tx, p purchase, state string) error {
	if state == "" {
		return d.exec(ctx, tx, p, "INSERT INTO {payments} VALUES ('{id}', 'void', 0)")
	}
	return d.exec(ctx, tx, p,
		"UPDATE {payments} SET state = 'refunded' WHERE id = '{id}' AND state = 'charged'",
		"UPDATE {accounts} SET cents = cents + {cents} WHERE name = 'customers'",
		"UPDATE {accounts} SET cents = cents - {cents} WHERE name = 'shop'",
	)
}
