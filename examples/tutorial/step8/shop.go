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
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

var placed = waybill.NewEventType[order]("order.placed", 1)

// sales is what the shop writes with.
type sales struct {
	writer      *outbox.Writer[pgx.Tx]
	scheduler   *schedule.Scheduler[pgx.Tx]
	remindAfter time.Duration
}

// place stores an order, enqueues the message about it and schedules the reminder. All commit, or none.
func (s sales) place(ctx context.Context, o order) error {
	m, err := placed.New("orders", o)
	if err != nil {
		return err
	}
	m.ID, m.Key = "placed-"+o.ID, o.ID
	_, err = s.writer.InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(m)
		reminder := waybill.Message{ID: "reminder-" + o.ID, To: "reminders", Subject: o.ID}
		if _, err := s.scheduler.After(ctx, tx, reminder, s.remindAfter); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2, $3)", o.ID, o.Customer, o.Cents)
		return err
	})
	return err
}

// paid is the type of the message about a payment.
const paid = "order.paid"

// pay stores a payment, enqueues the message about it and cancels the reminder.
func (s sales) pay(ctx context.Context, order string) error {
	_, err := s.writer.InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(waybill.Message{ID: "paid-" + order, Topic: "payments", Type: paid, Key: order})
		if _, err := s.scheduler.Cancel(ctx, tx, "reminder-"+order); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO payments VALUES ($1)", order)
		return err
	})
	return err
}

// shop starts the shop's HTTP server.
func shop(ctx context.Context, svc *service.Service[pgx.Tx], store *pgstore.Store[pgx.Tx]) error {
	scheduler, err := schedule.NewScheduler(store, schedule.Config{Source: "shop"})
	if err != nil {
		return err
	}
	s := sales{svc.Outbox(), scheduler, must(time.ParseDuration(cmp.Or(os.Getenv("REMIND_AFTER"), "48h")))}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o order
		err := json.NewDecoder(r.Body).Decode(&o)
		if err == nil {
			err = s.place(r.Context(), o)
		}
		answer(w, err, "Stored order "+o.ID+".")
	})
	mux.HandleFunc("POST /orders/{id}/payment", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.pay(r.Context(), r.PathValue("id")), "Paid order "+r.PathValue("id")+".")
	})
	mux.Handle("GET /metrics", promhttp.Handler())
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
