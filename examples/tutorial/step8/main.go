// Command step8 is the three services for production: a relay of its own publishes for all of them.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/observe/promobserve"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// starts adds to a service what it does.
var starts = map[string]func(ctx context.Context, svc *service.Service[pgx.Tx], store *pgstore.Store[pgx.Tx]) error{
	"shop": shop, "billing": billing, "fulfilment": fulfilment,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 || starts[os.Args[1]] == nil {
		log.Fatal("usage: step8 SERVICE")
	}
	name := os.Args[1]
	pool := must(pgxpool.New(ctx, os.Getenv("WAYBILL_STORE")))
	store := must(pgstore.New(pool, pgstore.Config{}))
	nats := must(natsbroker.Open(ctx, natsbroker.Config{URL: os.Getenv("WAYBILL_BROKER")}))
	metrics := promobserve.New(promobserve.Config{})
	svc := must(service.New(store, nats, service.Config{
		Source: name, DisableRelay: true,
		Observer: observe.Observers(observe.LogTo(slog.Default()), metrics),
	}))
	prometheus.MustRegister(metrics, promobserve.NewCollector(promobserve.CollectorConfig{
		Backlog: store, DeadLetters: store, Sagas: store,
	}))

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
