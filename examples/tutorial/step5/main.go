// Command step5 is the shop and billing. Customers who have not paid are reminded.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// starts adds to a service what it does.
var starts = map[string]func(ctx context.Context, svc *service.Service[pgx.Tx], store *pgstore.Store[pgx.Tx]) error{
	"shop": shop, "billing": billing,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 || starts[os.Args[1]] == nil {
		log.Fatal("usage: step5 SERVICE")
	}
	name := os.Args[1]
	pool := must(pgxpool.New(ctx, os.Getenv("WAYBILL_STORE")))
	must(pool.Exec(ctx, tables))
	store := must(pgstore.New(pool, pgstore.Config{}))
	must(store.Migrate(ctx, pgstore.MigrateOptions{}))
	nats := must(natsbroker.Open(ctx, natsbroker.Config{URL: os.Getenv("WAYBILL_BROKER")}))
	svc := must(service.New(store, nats, service.Config{Source: name, DisableRelay: name != "shop"}))

	check(starts[name](ctx, svc, store))
	log.Print(name, " is ready")
	check(svc.Run(ctx)) // until ctx ends
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
