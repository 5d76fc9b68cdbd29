package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/dashboard"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/memstore"
)

// Secrets of the people on the stage.
const (
	ReaderSecret = "reader-of-the-stage-0123456789"
	AdminSecret  = "ann-of-the-stage-0123456789"
)

// Hostile is the payload of one message, which wants to be code.
const Hostile = `<script>window.hacked = true</script><img src=x onerror="window.hacked = true">`

// Stage is a store in memory with some trouble in it, and a relay that publishes to a broker
// whose refusals can be fixed.
type Stage struct {
	Store   *memstore.Store
	Handler http.Handler // mounted below /waybill/

	mu        sync.Mutex
	fixed     bool
	published map[string]bool
}

// NewStage returns a stage; Run sets it going.
func NewStage() (*Stage, error) {
	s := &Stage{Store: memstore.New(), published: make(map[string]bool)}
	reader, err := dashboard.NewToken("rita", ReaderSecret, dashboard.Grant{Role: dashboard.Reader})
	if err != nil {
		return nil, err
	}
	admin, err := dashboard.NewToken("ann", AdminSecret, dashboard.Grant{Role: dashboard.Admin, Reveal: true})
	if err != nil {
		return nil, err
	}
	access, err := dashboard.NewTokens(reader, admin)
	if err != nil {
		return nil, err
	}
	d, err := dashboard.New(s.Store, dashboard.Config{
		Access: access, Checks: stageChecks, Environment: "staging", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/waybill/", http.StripPrefix("/waybill", d))
	s.Handler = mux
	return s, nil
}

// stageChecks finds what a doctor might.
func stageChecks(context.Context) []dashboard.Finding {
	return []dashboard.Finding{
		{Level: dashboard.OK, Check: "store", Detail: "PostgreSQL 17.2 at postgres://waybill@db.internal/shop"},
		{Level: dashboard.OK, Check: "clock", Detail: "the store's differs by 3ms, ±1ms"},
		{Level: dashboard.Note, Check: "time zone", Detail: "Europe/Zurich", Advice: "instants are stored, so any will do; SQL of your own that cuts them into days should say AT TIME ZONE"},
		{Level: dashboard.Warn, Check: "unroutable", Detail: "topic order.created: 12 messages came back", Advice: "start a consumer of it, or bind a queue; then: waybill dead requeue"},
		{Level: dashboard.OK, Check: "broker", Detail: "amqp://shop@mq.internal answers and confirms"},
	}
}

// Fill enqueues what the trouble is made of.
func (s *Stage) Fill(ctx context.Context) error {
	w, err := outbox.NewWriter(s.Store, outbox.Config{Source: "shop"})
	if err != nil {
		return err
	}
	var msgs []waybill.Message
	add := func(n int, topic, payload string) {
		for i := range n {
			msgs = append(msgs, waybill.Message{
				ID: fmt.Sprintf("%s-%04d", topic, i+1), Topic: topic, Key: fmt.Sprintf("customer-%d", i%5), Payload: []byte(payload),
				Headers: map[string]string{"x-region": "eu-west"}, CorrelationID: fmt.Sprintf("cart-%d", i),
			})
		}
	}
	add(12, "order.created", `{"order":4711,"customer":{"name":"Ann Example","city":"Bern"},"lines":[{"sku":"A-1","quantity":2}],"total":"129.90"}`)
	add(1, "invoice.sent", Hostile)
	add(40, "stock.changed", `{"sku":"A-1","left":7}`)
	_, err = s.Store.Transact(ctx, func(ctx context.Context, tx *memstore.Tx) (outbox.Batch, error) {
		_, err := w.Enqueue(ctx, tx, msgs...)
		return outbox.Batch{}, err
	})
	return errors.Join(err, s.plan(ctx), s.fillSagas(ctx), s.fillTraffic(ctx))
}

// plan schedules messages again and again, and some once.
func (s *Stage) plan(ctx context.Context) error {
	scheduler, err := schedule.NewScheduler(s.Store, schedule.Config{Source: "shop", Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	_, err = s.Store.Transact(ctx, func(ctx context.Context, tx *memstore.Tx) (outbox.Batch, error) {
		var errs []error
		for _, r := range []schedule.Recurring{
			{Name: "nightly-invoices", Cron: "30 4 * * *", TimeZone: "Europe/Berlin", Overlap: schedule.Skip, Message: waybill.Message{To: "billing", Type: "invoices.run", Payload: []byte(`{"all":true}`)}},
			{Name: "stock-report", Cron: "@weekly", Paused: true, Message: waybill.Message{Topic: "reports", Type: "stock.report"}},
			{Name: "sweep-carts", Every: 15 * time.Minute, Message: waybill.Message{Topic: "carts", Type: "carts.sweep"}},
		} {
			errs = append(errs, scheduler.Put(ctx, tx, r))
		}
		for i := range 3 {
			m := waybill.Message{ID: fmt.Sprintf("reminder-%d", i+1), To: "mailer", Type: "order.remind", Key: fmt.Sprintf("customer-%d", i), Payload: []byte(`{"order":4711}`)}
			_, err := scheduler.After(ctx, tx, m, time.Duration(i+1)*24*time.Hour)
			errs = append(errs, err)
		}
		return outbox.Batch{}, errors.Join(errs...)
	})
	return err
}

// Run publishes what is enqueued and drives replays until ctx is done.
func (s *Stage) Run(ctx context.Context) error {
	r, err := relay.New(s.Store, s, relay.Config{
		Node: "relay-1", Order: relay.Skip, PollInterval: 50 * time.Millisecond,
		Retry:    waybill.RetryPolicy{MaxRetries: waybill.NoRetries}, // what nobody receives is a dead letter at once
		Observer: observe.LogTo(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	p, err := deadletter.NewReplayer(s.Store, deadletter.ReplayerConfig{
		PollInterval: 100 * time.Millisecond, RampStep: time.Second, Observer: observe.LogTo(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	replaying := make(chan error, 1)
	go func() { replaying <- p.Run(ctx) }()
	return errors.Join(r.Run(ctx), <-replaying)
}

// Repair makes the broker accept everything.
func (s *Stage) Repair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixed = true
}

// Published reports how many messages the broker has accepted.
func (s *Stage) Published() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.published)
}

// Send implements [contract.Publisher].
func (s *Stage) Send(_ context.Context, msgs []contract.Outgoing) func() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]error, len(msgs))
	for i, m := range msgs {
		if results[i] = s.refusal(m.Topic); results[i] == nil {
			s.published[m.ID] = true
		}
	}
	return func() []error { return results }
}

func (s *Stage) refusal(topic string) error {
	switch {
	case s.fixed:
		return nil
	case topic == "order.created":
		return waybill.PermanentError(waybill.ReasonUnroutable, errors.New("no queue is bound to exchange \"shop\" for order.created"))
	case topic == "invoice.sent":
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("schema registry: payload is <html>, want JSON"))
	}
	return nil
}

// AwaitTrouble waits until everything that is refused is a dead letter.
func (s *Stage) AwaitTrouble(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		letters, err := s.Store.DeadLetters(ctx, deadletter.Filter{})
		if err != nil || len(letters) == 13 && s.Published() == 40 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// GiveUp lets a consumer dead-letter three messages.
func (s *Stage) GiveUp(ctx context.Context) error {
	for i := range 3 {
		m := waybill.Message{
			ID: fmt.Sprintf("stock.changed-%04d", i+1), Source: "shop", Topic: "stock.changed", Key: fmt.Sprintf("customer-%d", i),
			Payload: []byte(`{"sku":"A-1","left":7}`),
		}
		m.Complete()
		_, err := s.Store.BuryMessage(ctx, inbox.Letter{
			Record: inbox.RecordOf("reorder", &m), Message: m, Reason: waybill.ReasonExhausted, Attempts: 6, Node: "worker-2",
			Error: "supplier API: 502 Bad Gateway",
		})
		if err != nil {
			return err
		}
	}
	return nil
}
