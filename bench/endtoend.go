package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// ends are the processes that publish and handle the messages of the outbox. Relay and handlers share a
// pool.
func ends() []contender {
	const size = 2 * connections
	return []contender{
		{name: "by hand", note: "the floor's loop, which polls every 10 ms when it finds nothing, and nats.go; BEGIN and the gate in one round trip, " +
			"the business INSERT, COMMIT; no retries, no dead letters", job: job{Role: "byhand", Connections: size}},
		{name: "Waybill", note: "shipped defaults, Retention: KeepNothing, 8 handlers at a time", job: job{Role: "endtoend", Connections: size}},
		{name: "Waybill, BatchSize 100", note: "of the consumer, each handler with an INSERT of its own; compared with one message per transaction by hand",
			job: job{Role: "endtoend", Connections: size, Together: hundred}},
	}
}

// runEndToEnd lets each of ends handle a backlog, alternately.
func runEndToEnd(ctx context.Context, b *bench) ([]row, error) {
	list := ends()
	runs := make([][]drained, len(list))
	n := max(1, b.messages/4)
	err := inTurns(b.repeats, len(list), func(at int) error {
		d, err := b.handleBacklog(ctx, list[at].job, n)
		if err != nil {
			return fmt.Errorf("%s: %w", list[at].name, err)
		}
		runs[at] = append(runs[at], d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return endToEndRows(n, list, runs), nil
}

// handleBacklog lets the job's process handle n messages of the outbox, each of them once.
func (b *bench) handleBacklog(ctx context.Context, j job, n int) (d drained, _ error) {
	return d, b.inWorld(ctx, func(w *world) (err error) {
		if err := w.exec(ctx, businessTableSQL); err != nil {
			return err
		}
		if err := w.fill(ctx, n); err != nil {
			return err
		}
		if err := w.exec(ctx, "CHECKPOINT"); err != nil { // not within the run
			return err
		}
		j.Messages = n
		if d, err = w.drain(ctx, j, b.destination(toNATS), b.postgres); err != nil {
			return err
		}
		handled, err := one[int](ctx, w, "SELECT count(*) FROM business")
		if err == nil && handled != n {
			err = fmt.Errorf("%d messages had their effect, want %d", handled, n)
		}
		return err
	})
}

func endToEndRows(n int, list []contender, runs [][]drained) []row {
	var rows []row
	perMessage := func(d drained) float64 { return (d.cpu - d.brokerCPU) * 10 } // of seconds per 100,000
	for i, c := range list {
		rates, cpus := column(runs[i], rate), known(column(runs[i], perMessage))
		r := row{table: number(float64(n)) + " messages to NATS JetStream and to 8 handlers with an inbox", name: c.name, note: c.note}
		r.figures = []figure{{name: "messages/s", values: rates}, {name: "of by hand"}, {name: "CPU per message", unit: "µs", values: cpus}}
		if i > 0 {
			r.figures[1] = figure{"of by hand", "%", ratios(rates, column(runs[0], rate)), nil}
			r.figures = append(r.figures, figure{"CPU, of by hand", "%", ratios(cpus, known(column(runs[0], perMessage))), nil})
		}
		if c.job.Role == "endtoend" && c.job.Together == 0 { // by hand handles one per transaction, too
			r.figures[1].want = atLeast(90)
		}
		rows = append(rows, r)
	}
	return rows
}

// endToEndJob runs a relay and a consumer. Handled messages count as done.
func endToEndJob(ctx context.Context, c *client) error {
	pool, err := openPool(ctx, c.Postgres, c.Connections, &c.tracer)
	if err != nil {
		return err
	}
	defer pool.Close()
	b, err := c.To.openNATS(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return err
	}
	cfg := c.config()
	cfg.Observer = quiet
	r, err := relay.New(store, b.Publisher(), cfg)
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, tx pgx.Tx, _ *waybill.Message) error { return business(ctx, tx) }
	receiver, err := consumer.New(b, consumer.Subscription{Group: "billing", Topics: []string{topic}}, store, handle,
		consumer.Config{Concurrency: connections, BatchSize: c.Together, Observer: progress{quiet, observe.OpHandle, c.add}})
	if err != nil {
		return err
	}
	run, err := c.start(ctx)
	if err != nil {
		return err
	}
	return together(run, r.Run, receiver.Run)
}

// together runs several functions until all have ended. When one ends, the others are cancelled.
func together(ctx context.Context, list ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(list))
	for _, run := range list {
		go func() {
			defer stop()
			ended <- run(ctx)
		}()
	}
	var errs []error
	for range list {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// endToEndByHand is the minimum for a hand-written relay and consumer.
func endToEndByHand(ctx context.Context, c *client) error {
	return c.publishing(ctx, func(run context.Context, pool *pgxpool.Pool, pub *publisher) error {
		return together(run,
			func(ctx context.Context) error { return followByHand(ctx, pool, pub, followPoll, func(int) {}) },
			func(ctx context.Context) error { return c.receiveByHand(ctx, pool) })
	})
}

// receiveByHand handles messages of the stream, as many concurrently as the consumer has handlers, with the
// same prefetch.
func (c *client) receiveByHand(ctx context.Context, pool *pgxpool.Pool) error {
	return c.To.onNATS(func(_ *nats.Conn, js jetstream.JetStream) error {
		durable, err := js.CreateConsumer(ctx, c.To.Name, jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1})
		if err != nil {
			return err
		}
		list, err := durable.Messages(jetstream.PullMaxMessages(8 * connections))
		if err != nil {
			return err
		}
		defer list.Stop()
		handlers := make([]func(context.Context) error, connections)
		for i := range handlers {
			handlers[i] = func(ctx context.Context) error { return c.handleEach(ctx, pool, list) }
		}
		return together(ctx, handlers...)
	})
}

// handleEach handles one message after the other until ctx ends.
func (c *client) handleEach(ctx context.Context, pool *pgxpool.Pool, list jetstream.MessagesContext) error {
	for {
		in, err := list.Next(jetstream.NextContext(ctx))
		if err == nil {
			err = handleByHand(ctx, pool, received(in))
		}
		if err == nil {
			err = in.Ack()
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.add(1)
	}
}

// received extracts from the message what the inbox insert needs.
func received(in jetstream.Msg) *waybill.Message {
	h := in.Headers()
	return &waybill.Message{ID: h.Get("ce-id"), Type: h.Get("ce-type"), Source: h.Get("ce-source"), Tenant: waybill.DefaultTenant, Payload: in.Data()}
}
