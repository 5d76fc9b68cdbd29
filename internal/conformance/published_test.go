package conformance

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/push"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/pgstore"
)

// archivingStore is a store that clients of push catch up from.
type archivingStore[Tx any] interface {
	outbox.Store[Tx]
	inspect.Outbox
	contract.Source
	push.Archive
}

// catchUp is the archive that a store offers, filled through outbox and relay.
type catchUp[Tx any] struct {
	*testing.T
	store   archivingStore[Tx]
	advance func(d time.Duration) // sets the store's clock
}

func TestPublished(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		a := newArchive(t)
		testPublished(&catchUp[pgx.Tx]{t, a.store, a.advance})
	})
	t.Run("sql", func(t *testing.T) {
		a := newArchive(t)
		store, err := pgstore.NewSQL(a.p.db, a.cfg)
		must(t, err)
		testPublished(&catchUp[*sql.Tx]{t, store, a.advance})
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s := &memStore{}
		s.Store = memstore.New(memstore.WithClock(s.now))
		var now time.Duration
		testPublished(&catchUp[*memstore.Tx]{t, s.Store, func(d time.Duration) { s.move(d - now); now = d }})
	})
}

func testPublished[Tx any](c *catchUp[Tx]) {
	c.publish(waybill.Message{ID: "a", Topic: "orders", Payload: []byte("{}")})
	first := c.at("a", time.Minute)
	c.advance(time.Minute)
	full := waybill.Message{
		ID: "d", Type: "order.created@v2", Topic: "orders", Key: "k", Subject: "s", Tenant: "acme", Payload: []byte("\xff\x00\r\n"),
		ContentType: "x/y", Headers: map[string]string{"push-users": "ann"}, CorrelationID: "c", Time: time.Unix(1700000000, 5000).UTC(),
	}
	c.publish(waybill.Message{ID: "b", To: "billing"})
	c.publish(waybill.Message{ID: "c", Topic: "stock"})
	c.publish(full)

	for id, within := range map[string]time.Duration{"a": 59 * time.Second, "x": time.Hour} {
		if at, err := c.store.PublishedAt(c.Context(), id, within); !errors.Is(err, waybill.ErrNotFound) {
			c.Errorf("PublishedAt(%s) within %v = %v, %v, want ErrNotFound", id, within, at, err)
		}
	}
	if got := c.at("a", 2*time.Minute); !got.Equal(first) {
		c.Errorf("a was published at %v, and later at %v", first, got)
	}
	if later := c.at("b", time.Minute).Sub(first); later < 59*time.Second || later > 3*time.Minute {
		c.Errorf("b was published %v after a, want about a minute", later)
	}

	both := []string{"orders", "billing"}
	c.want("a b d", both, first)
	c.want("b d", both, first.Add(time.Microsecond))
	c.want("d", both, c.at("d", time.Minute))
	c.want("c", []string{"stock"}, first)
	c.want("", nil, first)
	if got := c.read([]string{"orders"}, first)[1]; !seenAlike(got, full) {
		c.Errorf("it came back as %+v, want %+v", got, full)
	}

	stop, visits := errors.New("stop"), 0
	err := c.store.PublishedSince(c.Context(), both, first, func(*waybill.Message) error { visits++; return stop })
	if !errors.Is(err, stop) || visits != 1 {
		c.Errorf("after an error: %d visits and %v, want one and the error", visits, err)
	}
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	if err := c.store.PublishedSince(ended, both, first, func(*waybill.Message) error { return nil }); err == nil {
		c.Error("PublishedSince with a context that has ended returned nil")
	}
}

// seenAlike compares what a client sees of a message.
func seenAlike(a, b waybill.Message) bool {
	a.Source, b.Source = "", ""
	return reflect.DeepEqual(a, b)
}

// publish enqueues messages and lets a relay publish them.
func (c *catchUp[Tx]) publish(msgs ...waybill.Message) {
	c.Helper()
	writer, err := outbox.NewWriter[Tx](c.store, outbox.Config{Source: "shop"})
	must(c.T, err)
	_, err = writer.InTx(c.Context(), func(_ context.Context, _ Tx, rec *outbox.Recorder) error { rec.Record(msgs...); return nil })
	must(c.T, err)
	r, err := relay.New(c.store, taker{}, relay.Config{Observer: observe.Observers()})
	must(c.T, err)
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for _, m := range msgs {
		waitFor(c.T, m.ID+" is published", func() bool {
			states, err := c.store.MessageStates(c.Context(), m.ID)
			return err == nil && len(states) == 1 && states[0].Status == inspect.Published
		})
	}
	cancel()
	must(c.T, <-ended)
}

// taker is a publisher that takes everything.
type taker struct{}

func (taker) Send(_ context.Context, msgs []contract.Outgoing) func() []error {
	return func() []error { return make([]error, len(msgs)) }
}

func (c *catchUp[Tx]) at(id string, within time.Duration) time.Time {
	c.Helper()
	at, err := c.store.PublishedAt(c.Context(), id, within)
	if err != nil {
		c.Fatalf("PublishedAt(%s): %v", id, err)
	}
	return at
}

func (c *catchUp[Tx]) read(topics []string, since time.Time) (msgs []waybill.Message) {
	c.Helper()
	must(c.T, c.store.PublishedSince(c.Context(), topics, since, func(m *waybill.Message) error {
		msgs = append(msgs, *m)
		return nil
	}))
	return msgs
}

func (c *catchUp[Tx]) want(want string, topics []string, since time.Time) {
	c.Helper()
	got := ""
	for _, m := range c.read(topics, since) {
		if got != "" {
			got += " "
		}
		got += m.ID
	}
	if got != want {
		c.Errorf("published to %v since %v: %q, want %q", topics, since, got, want)
	}
}
