// Command step1 stores an order and, in the same transaction, the message about it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

var placed = waybill.NewEventType[order]("order.placed", 1)

// place stores an order and enqueues the message about it. Both commit, or neither.
func place(ctx context.Context, writer *outbox.Writer[pgx.Tx], o order) error {
	m, err := placed.New("orders", o)
	if err != nil {
		return err
	}
	m.ID, m.Key = "placed-"+o.ID, o.ID
	_, err = writer.InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(m)
		_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2, $3)", o.ID, o.Customer, o.Cents)
		return err
	})
	return err
}

const tables = "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, customer text, cents bigint)"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if len(os.Args) != 3 {
		log.Fatal("usage: step1 ORDER CUSTOMER")
	}
	pool := must(pgxpool.New(ctx, os.Getenv("WAYBILL_STORE")))
	must(pool.Exec(ctx, tables))
	store := must(pgstore.New(pool, pgstore.Config{}))
	must(store.Migrate(ctx, pgstore.MigrateOptions{})) // creates Waybill's own tables
	writer := must(outbox.NewWriter(store, outbox.Config{Source: "shop"}))

	o := order{ID: os.Args[1], Customer: os.Args[2], Cents: 4200}
	check(place(ctx, writer, o))
	fmt.Printf("Stored order %s.\n", o.ID)
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
