package sagatest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
)

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		cfg   saga.Config
		field string
	}{
		{saga.Config{Source: "shop", Topic: own}, "saga.Config.Name"},
		{saga.Config{Name: "orders", Topic: own}, "saga.Config.Source"},
		{saga.Config{Name: "orders", Source: "shop"}, "saga.Config.Topic"},
		{saga.Config{Name: "orders", Source: "shop", Topic: own, Version: -1}, "saga.Config.Version"},
		{saga.Config{Name: "orders", Source: "shop", Topic: own, Node: strings.Repeat("n", 256)}, "saga.Config.Node"},
		{saga.Config{Name: strings.Repeat("n", 201), Source: "shop", Topic: own}, "saga.Config.Name"},
	}
	for _, tt := range tests {
		_, err := saga.New[tx, order](memstore.New(), tt.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tt.field {
			t.Errorf("New() = %v, want one about %s", err, tt.field)
		}
	}
}

func TestDefinition_Panics(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *change, *waybill.Message) error { return nil }
	execute := func(context.Context, *change) error { return nil }
	full := rule{Key: bySubject, Do: nothing}
	tests := []struct {
		name   string
		define func(s *orders)
	}{
		{"no type", func(s *orders) { s.On("", full) }},
		{"no Key", func(s *orders) { s.On("a", rule{Do: nothing}) }},
		{"no Do", func(s *orders) { s.On("a", rule{Key: bySubject}) }},
		{"two rules", func(s *orders) { s.On("a", full); s.On("a", full) }},
		{"the engine's own type", func(s *orders) { s.On("waybill.saga.step", full) }},
		{"a state without a name", func(s *orders) { s.On("a", rule{Key: bySubject, Do: nothing, To: []string{""}}) }},
		{"a timeout with a Key", func(s *orders) { s.OnTimeout("a", full) }},
		{"a timeout twice", func(s *orders) { s.OnTimeout("a", rule{Do: nothing}); s.OnTimeout("a", rule{Do: nothing}) }},
		{"no steps", func(s *orders) { s.Steps() }},
		{"steps twice", func(s *orders) {
			s.Steps(step{Name: "a", Execute: execute})
			s.Steps(step{Name: "b", Execute: execute})
		}},
		{"two steps of one name", func(s *orders) { s.Steps(step{Name: "a", Execute: execute}, step{Name: "a", Execute: execute}) }},
		{"no Execute", func(s *orders) { s.Steps(step{Name: "a"}) }},
		{"a timeout without Wait", func(s *orders) { s.Steps(step{Name: "a", Execute: execute, Timeout: time.Second}) }},
		{"OnEnd with nil", func(s *orders) { s.OnEnd(nil) }},
		{"keep nil", func(s *orders) { s.Keep(nil) }},
		{"keep itself", func(s *orders) { s.Keep(s) }},
		{"migrate without a function", func(s *orders) { s.Migrate(1, nil) }},
		{"migrate from a newer version", func(s *orders) { s.Migrate(3, func(*saga.Instance) (order, error) { return order{}, nil }) }},
		{"migrate what is kept", func(s *orders) {
			s.Keep(newSaga(t, memstore.New(), saga.Config{}))
			s.Migrate(1, func(*saga.Instance) (order, error) { return order{}, nil })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSaga(t, memstore.New(), saga.Config{Version: 2})
			defer func() {
				if recover() == nil {
					t.Error("the definition is taken, want a panic")
				}
			}()
			tt.define(s)
		})
	}
}

// counting is a store that counts its calls.
type counting struct {
	saga.Store[tx]
	calls []string
}

func (c *counting) ReadSaga(ctx context.Context, tx tx, id saga.ID, lock bool) (saga.Instance, error) {
	c.calls = append(c.calls, map[bool]string{false: "read", true: "lock"}[lock])
	return c.Store.ReadSaga(ctx, tx, id, lock)
}

func (c *counting) WriteSaga(ctx context.Context, tx tx, in *saga.Instance, e saga.Entry) (bool, error) {
	c.calls = append(c.calls, "write")
	return c.Store.WriteSaga(ctx, tx, in, e)
}

func (c *counting) EnqueueMessages(ctx context.Context, tx tx, b outbox.Batch) ([]bool, error) {
	c.calls = append(c.calls, "enqueue")
	return c.Store.EnqueueMessages(ctx, tx, b)
}

func (c *counting) Now(ctx context.Context, tx tx) (time.Time, error) {
	c.calls = append(c.calls, "now")
	return c.Store.Now(ctx, tx)
}

// TestRoundTrips: a change is one read, one write and one enqueue, however many messages it sends.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, lock := range []bool{false, true} {
		store := memstore.New()
		counts := &counting{Store: store}
		s := withSteps(t, counts, saga.Config{Lock: lock}, well)
		if err := handle(s, store, message("placed", "a")); err != nil {
			t.Fatal(err)
		}
		want := "read write enqueue"
		if lock {
			want = "lock write enqueue"
		}
		if got := strings.Join(counts.calls, " "); got != want {
			t.Errorf("the store was asked to %s, want %s", got, want)
		}
	}
}

// TestMessages: what an instance sends has its key, its tenant, and the message that led to it.
func TestMessages(t *testing.T) {
	t.Parallel()
	sent := &recording{Store: memstore.New()}
	s := newSaga(t, sent, saga.Config{})
	s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
		c.Publish("bills", waybill.Message{})
		c.Send("bank", waybill.Message{Key: "other"})
		_, err := c.Schedule(ctx, waybill.Message{Topic: "reminders"}, time.Now().Add(time.Hour))
		return err
	}})
	m := message("placed", "a")
	m.Tenant, m.CorrelationID = "blue", "flow"
	if err := handle(s, sent.Store.(*memstore.Store), m); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"bills": "a", "bank": "other", "reminders": "a"}
	for _, m := range sent.messages {
		if m.Key != want[m.Address()] || m.Tenant != "blue" || m.CorrelationID != "flow" || m.CausationID != "placed a" || m.Source != "shop" {
			t.Errorf("sent %+v, want the key %q, and tenant, correlation and cause of what was handled", m, want[m.Address()])
		}
		delete(want, m.Address())
	}
	if len(want) != 0 {
		t.Errorf("not sent: %v", want)
	}
}

// recording is a store that notes the messages.
type recording struct {
	saga.Store[tx]
	messages []waybill.Message
}

func (r *recording) EnqueueMessages(ctx context.Context, tx tx, b outbox.Batch) ([]bool, error) {
	r.messages = append(r.messages, b.Messages...)
	return r.Store.EnqueueMessages(ctx, tx, b)
}

func (r *recording) AddScheduled(ctx context.Context, tx tx, m *waybill.Message) (bool, error) {
	r.messages = append(r.messages, *m)
	return r.Store.AddScheduled(ctx, tx, m)
}
