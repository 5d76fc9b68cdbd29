package opener

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
)

// These are the tests of package service that need a store: here all stores are at hand.

// shop is a service on a store, a broker that counts, and a table of effects.
type shop struct {
	db        *sql.DB
	store     SQLStore
	broker    *membroker.Broker
	delivered *atomic.Int64 // messages that the broker has handed out
}

func newShop(t *testing.T, cfg StoreConfig) *shop {
	t.Helper()
	db, store := openMigrated(t, cfg)
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE effects (id TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	s := &shop{db: db, store: store, broker: membroker.New(), delivered: &atomic.Int64{}}
	listen(t, s.broker, s.delivered)
	return s
}

// listen counts what the broker has for the topic orders, until the test ends; then it closes the
// broker.
func listen(t *testing.T, broker *membroker.Broker, delivered *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	sub := broker.Subscriber(consumer.Subscription{Group: "world", Topics: []string{"orders"}})
	go func() {
		defer close(done)
		err := sub.Subscribe(ctx, 10, func(d contract.Delivery) {
			delivered.Add(1)
			if err := d.Ack(ctx); err != nil {
				t.Errorf("Ack() = %v", err)
			}
		})
		if err != nil {
			t.Errorf("Subscribe() = %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done; broker.Close() })
}

type quiet struct{}

func (quiet) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}
func (quiet) Observe(context.Context, observe.Event) {}

func (s *shop) service(t *testing.T, cfg service.Config) *service.Service[*sql.Tx] {
	t.Helper()
	cfg.Source, cfg.Observer = "shop", quiet{}
	cfg.Relay = relay.Config{
		PollInterval: 20 * time.Millisecond, LeaseTTL: 2 * time.Minute, PublishTimeout: time.Minute, RenewInterval: 200 * time.Millisecond,
	}
	cfg.Consumer = consumer.Config{
		Retry:           waybill.RetryPolicy{BaseDelay: 10 * time.Millisecond},
		RequeueInterval: 20 * time.Millisecond,
	}
	svc, err := service.New(s.store, s.broker, cfg)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return svc
}

// run runs a service until the returned function is called.
func run(t *testing.T, svc Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// enqueue commits messages with the given ids.
func enqueue(t *testing.T, svc *service.Service[*sql.Tx], ids ...string) {
	t.Helper()
	_, err := svc.Outbox().InTx(t.Context(), func(_ context.Context, _ *sql.Tx, rec *outbox.Recorder) error {
		for _, id := range ids {
			rec.Record(waybill.Message{ID: id, Topic: "orders", Key: "k" + id[len(id)-1:]})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
}

// effect writes the effect of a message.
func effect(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO effects (id) VALUES ('`+m.ID+`')`)
	return err
}

// wantEffects waits for n effects and checks that each is of another message.
func (s *shop) wantEffects(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() error {
		var rows, different int
		if err := s.db.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT id) FROM effects`).Scan(&rows, &different); err != nil {
			return err
		}
		if rows != different {
			t.Fatalf("%d effects of %d messages", rows, different)
		}
		if rows != n {
			return fmt.Errorf("%d effects, want %d", rows, n)
		}
		return nil
	})
}

// wantPublished waits until a message is published to exactly the given destinations.
func (s *shop) wantPublished(t *testing.T, id string, destinations ...string) {
	t.Helper()
	eventually(t, func() error {
		states, err := s.store.MessageStates(t.Context(), id)
		if err != nil {
			return err
		}
		found := make(map[string]bool)
		for _, st := range states {
			if st.Status != inspect.Published {
				return fmt.Errorf("%s is %s for %q (%s)", id, st.Status, st.Destination, st.Error)
			}
			found[st.Destination] = true
		}
		if len(states) != len(destinations) || len(found) != len(destinations) {
			return fmt.Errorf("%s is published to %v, want %q", id, found, destinations)
		}
		return nil
	})
}

func (s *shop) wantDelivered(t *testing.T, n int64) {
	t.Helper()
	if got := s.delivered.Load(); got != n {
		t.Errorf("the broker has delivered %d messages, want %d", got, n)
	}
}

func ids(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%03d", i)
	}
	return list
}

func TestService_Shapes(t *testing.T) {
	onStores(t, func(t *testing.T, cfg StoreConfig) {
		s := newShop(t, cfg)
		sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
		inboxOnly := s.service(t, service.Config{DisableRelay: true})
		if err := inboxOnly.Consume(sub, effect, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		outboxOnly := s.service(t, service.Config{})
		stopInbox, stopOutbox := run(t, inboxOnly), run(t, outboxOnly)
		enqueue(t, outboxOnly, ids(10)...)
		s.wantEffects(t, 10)
		stopInbox()
		stopOutbox()

		both := s.service(t, service.Config{})
		if err := both.Consume(sub, effect, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		enqueue(t, both, "last")
		run(t, both)
		s.wantEffects(t, 11)
		s.wantPublished(t, "last", "")
	})
}

// A local handler that fails at first is tried again, and nothing is published again.
func TestService_Local(t *testing.T) {
	onStores(t, func(t *testing.T, cfg StoreConfig) {
		s := newShop(t, cfg)
		svc := s.service(t, service.Config{})
		var tried sync.Map
		failing := func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
			if err := effect(ctx, tx, m); err != nil {
				return err
			}
			if _, again := tried.LoadOrStore(m.ID, true); !again && m.ID[3]%3 == 0 {
				return errors.New("not this time")
			}
			return nil
		}
		notM5 := func(m *waybill.Message) bool { return m.ID != "m005" }
		if err := svc.Local("index", notM5, failing, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		run(t, svc)
		enqueue(t, svc, ids(40)...)
		s.wantEffects(t, 39)
		for _, id := range ids(40) {
			if id == "m005" {
				s.wantPublished(t, id, "")
			} else {
				s.wantPublished(t, id, "", "local:index")
			}
		}
		s.wantDelivered(t, 40)
	})
}

// A message on which a local handler fails for good is that handler's dead letter, and its own to be requeued.
func TestService_LocalDeadLetter(t *testing.T) {
	onStores(t, func(t *testing.T, cfg StoreConfig) {
		s := newShop(t, cfg)
		svc := s.service(t, service.Config{})
		var refuse atomic.Bool
		refuse.Store(true)
		refusing := func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
			if refuse.Load() {
				return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
			}
			return effect(ctx, tx, m)
		}
		if err := errors.Join(svc.Local("index", nil, refusing, consumer.Config{}), svc.Local("other", nil, ignore, consumer.Config{})); err != nil {
			t.Fatal(err)
		}
		run(t, svc)
		enqueue(t, svc, "a")
		s.wantPublished(t, "a", "", "local:index", "local:other")
		letters, err := s.store.DeadLetters(t.Context(), deadletter.Filter{})
		if err != nil || len(letters) != 1 || letters[0].Origin != deadletter.FromConsumer || letters[0].Consumer != "index" {
			t.Fatalf("DeadLetters() = %+v, %v", letters, err)
		}
		refuse.Store(false)
		if ok, err := s.store.RequeueDeadLetter(t.Context(), letters[0].Number, deadletter.Act{By: "test"}); !ok || err != nil {
			t.Fatalf("RequeueDeadLetter() = %v, %v", ok, err)
		}
		s.wantEffects(t, 1)
		s.wantDelivered(t, 1)
	})
}

func ignore(context.Context, *sql.Tx, *waybill.Message) error { return nil }

// A message that waits for a local handler outlives the process.
func TestService_LocalAfterRestart(t *testing.T) {
	onStores(t, func(t *testing.T, cfg StoreConfig) {
		s := newShop(t, cfg)
		first := s.service(t, service.Config{})
		called := make(chan struct{}, 100)
		notNow := func(context.Context, *sql.Tx, *waybill.Message) error {
			called <- struct{}{}
			return waybill.UnavailableError(errors.New("not now"))
		}
		if err := first.Local("index", nil, notNow, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		stop := run(t, first)
		enqueue(t, first, "a")
		<-called
		stop()
		s.wantEffects(t, 0)

		second := s.service(t, service.Config{})
		if err := second.Local("index", nil, effect, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		run(t, second)
		s.wantEffects(t, 1)
		s.wantPublished(t, "a", "", "local:index")
		s.wantDelivered(t, 1)
	})
}

// A slow local handler does not hold up what is published. On SQLite it does, as the one
// that writes.
func TestService_LocalSlow(t *testing.T) {
	t.Parallel()
	onPostgres(t, func(t *testing.T, cfg StoreConfig) {
		s := newShop(t, cfg)
		svc := s.service(t, service.Config{})
		release := make(chan struct{})
		var calls atomic.Int64
		slow := func(ctx context.Context, _ *sql.Tx, _ *waybill.Message) error {
			calls.Add(1)
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := svc.Local("slow", func(m *waybill.Message) bool { return m.ID == "m000" }, slow, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		run(t, svc)
		enqueue(t, svc, ids(20)...)
		for _, id := range ids(20)[1:] {
			s.wantPublished(t, id, "")
		}
		s.wantDelivered(t, 20)
		close(release)
		s.wantPublished(t, "m000", "", "local:slow")
		if n := calls.Load(); n != 1 {
			t.Errorf("the handler was called %d times, want once", n)
		}
	})
}
