// Command step2 is the shop as a service: it takes orders over HTTP, and its relay publishes the
// messages about them to NATS.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("WAYBILL_STORE")))
	must(pool.Exec(ctx, tables))
	store := must(pgstore.New(pool, pgstore.Config{}))
	must(store.Migrate(ctx, pgstore.MigrateOptions{}))
	nats := must(natsbroker.Open(ctx, natsbroker.Config{URL: os.Getenv("WAYBILL_BROKER")}))
	svc := must(service.New(store, nats, service.Config{Source: "shop"}))

	serve(ctx, svc.Outbox())
	log.Print("shop is ready")
	check(svc.Run(ctx)) // the relay, until ctx ends
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
