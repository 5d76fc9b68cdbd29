// Command version1 is a shop with everything in one process: it writes orders with their
// messages, relays them and handles them. It is built twice: from source.tar.gz, which is the
// code of the release that knew version 1 of the schema, with the build tag version1, and from the
// code of today.
//
//	version1 NAME POSTGRES-URL SCHEMA NATS-URL STREAM
//
// It writes orders until its standard input ends, and then stops in good order. Under the name
// drain it writes none.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := open(ctx, args)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	ended := make(chan error, 1)
	go func() { ended <- s.svc.Run(ctx) }()
	written := s.write(ctx, stop)
	cancel()
	return errors.Join(written, <-ended)
}

// shop is the service and what its handler needs.
type shop struct {
	name, schema string
	svc          *service.Service[pgx.Tx]

	mu    sync.Mutex
	tried map[string]bool
}

func open(ctx context.Context, args []string) (*shop, error) {
	pool, err := pgxpool.New(ctx, args[1])
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{Schema: args[2]})
	if err != nil {
		return nil, err
	}
	broker, err := natsbroker.Open(ctx, natsbroker.Config{URL: args[3], Stream: args[4], SubjectPrefix: args[4] + "."})
	if err != nil {
		return nil, err
	}
	s := &shop{name: args[0], schema: pgx.Identifier{args[2]}.Sanitize(), tried: make(map[string]bool)}
	retry := waybill.RetryPolicy{BaseDelay: 100 * time.Millisecond}
	s.svc, err = service.New(store, broker, service.Config{
		Source: "shop",
		Relay: relay.Config{
			PollInterval: 50 * time.Millisecond, Retry: retry,
			LeaseTTL: 3 * time.Second, RenewInterval: 500 * time.Millisecond, PublishTimeout: 2 * time.Second,
		},
		Consumer: consumer.Config{Retry: retry},
	})
	if err != nil {
		return nil, err
	}
	sub := consumer.Subscription{Group: args[4] + "-billing", Topics: []string{"orders"}}
	return s, s.svc.Consume(sub, s.handle, named(sub.Group))
}

// handle writes down that an order was handled, and by whom. Some orders are refused for good,
// some at the first attempt.
func (s *shop) handle(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+s.schema+".effects (id, handler) VALUES ($1, $2)", m.ID, s.name)
	switch {
	case err != nil:
		return err
	case m.Subject == "poison":
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("no such customer"))
	case m.Subject == "twice" && s.first(m.ID):
		return errors.New("not at the first attempt")
	}
	return nil
}

func (s *shop) first(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.tried[id]
	s.tried[id] = true
	return first
}

// write places an order every few milliseconds.
func (s *shop) write(ctx context.Context, stop <-chan struct{}) error {
	if s.name == "drain" {
		<-stop
		return nil
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		m := s.order(n)
		_, err := s.svc.Outbox().InTx(ctx, func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			rec.Record(m)
			_, err := tx.Exec(ctx, "INSERT INTO "+s.schema+".orders (id, kind) VALUES ($1, $2)", m.ID, m.Subject)
			return err
		})
		if err != nil {
			return fmt.Errorf("order %s: %w", m.ID, err)
		}
	}
}

// order returns the message of an order. Every tenth or so is of a special kind: it goes
// nowhere, is poison, fails once, or is to be delivered later.
func (s *shop) order(n int) waybill.Message {
	m := waybill.Message{ID: fmt.Sprintf("%s-%d", s.name, n), Topic: "orders", Subject: "plain", Key: fmt.Sprintf("customer-%d", n%7), Payload: []byte(`{}`)}
	switch n % 40 {
	case 7:
		m.Topic, m.Subject, m.Key = "_to.nobody", "nowhere", ""
	case 17:
		m.Subject, m.Key = "poison", ""
	case 27:
		m.Subject = "twice"
	case 37:
		m.DeliverAt = time.Now().Add(300 * time.Millisecond)
	}
	return m
}
