package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/service"
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

const tables = `
	CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, customer text, cents bigint);
	CREATE TABLE IF NOT EXISTS invoices (order_id text, cents bigint);
	CREATE TABLE IF NOT EXISTS customers (name text PRIMARY KEY)`

// shop starts the shop's HTTP server.
func shop(ctx context.Context, svc *service.Service[pgx.Tx], _ *pgstore.Store[pgx.Tx]) error {
	writer := svc.Outbox()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o order
		err := json.NewDecoder(r.Body).Decode(&o)
		if err == nil {
			err = place(r.Context(), writer, o)
		}
		answer(w, err, "Stored order "+o.ID+".")
	})
	listen(ctx, mux)
	return nil
}

// listen serves mux until ctx ends. A request may take ten seconds.
func listen(ctx context.Context, mux *http.ServeMux) {
	l := must(net.Listen("tcp", cmp.Or(os.Getenv("SHOP_ADDR"), "127.0.0.1:8080")))
	server := &http.Server{Handler: http.TimeoutHandler(mux, 10*time.Second, "too slow\n"), ReadTimeout: 10 * time.Second}
	go server.Serve(l)
	context.AfterFunc(ctx, func() { server.Close() })
}

func answer(w http.ResponseWriter, err error, text string) {
	if err != nil {
		log.Print(err)
		http.Error(w, "This did not work; the shop's log says why.", http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, text)
}
