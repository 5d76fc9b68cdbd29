// Command first is a complete service: an order and its message commit together, and
// billing handles the message once.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, "postgres://postgres@127.0.0.1:5432/test"))
	must(pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id text); CREATE TABLE IF NOT EXISTS invoices (order_id text)"))
	store := must(pgstore.New(pool, pgstore.Config{}))
	must(store.Migrate(ctx, pgstore.MigrateOptions{}))
	broker := must(rabbitbroker.Open(ctx, rabbitbroker.Config{URL: "amqp://guest:guest@127.0.0.1:5672/"}))
	shop := must(service.New(store, broker, service.Config{Source: "shop"}))

	check(shop.Consume(consumer.Subscription{Group: "billing", Topics: []string{"orders"}},
		func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error { // commits with the inbox record
			_, err := tx.Exec(ctx, "INSERT INTO invoices VALUES ($1)", m.Subject)
			return err
		}, consumer.Config{}))

	must(shop.Outbox().InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(waybill.Message{Topic: "orders", Key: "customer-1", Subject: "o-17"})
		_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ('o-17')") // commits with the message
		return err
	}))
	check(shop.Run(ctx)) // the relay and the consumer, until ctx ends
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
