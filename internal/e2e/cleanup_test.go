package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
)

// moveClock sets the store's clock ahead of the server's.
func (w *world) moveClock(t *testing.T, ahead time.Duration) {
	t.Helper()
	w.exec(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS 'SELECT clock_timestamp() + interval ''%d seconds'''`, w.table("clock"), int(ahead.Seconds())))
}

// processed handles messages outside of a consumer.
func (w *world) processed(t *testing.T, msgs ...waybill.Message) {
	t.Helper()
	for i := range msgs {
		msgs[i].Complete()
		if _, err := inbox.Process(t.Context(), w.store, "billing", &msgs[i], func(context.Context, pgx.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) buried(t *testing.T, msgs ...waybill.Message) {
	t.Helper()
	for i := range msgs {
		msgs[i].Complete()
		letter := inbox.Letter{Record: inbox.RecordOf("billing", &msgs[i]), Message: msgs[i], Reason: waybill.ReasonRejected, Error: "no such customer", Attempts: 1}
		if _, err := w.store.BuryMessage(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCleanup (AS-66) lets two janitors clean up at once while a relay and a consumer work: what
// is past its retention goes, in batches, each row once, and nothing else.
//
//test:sessions
func TestCleanup(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), membroker.New()
	w.processed(t, numbered("old", "orders", 150)...)
	w.buried(t, numbered("lost", "orders", 30)...)
	w.parkOne(t)
	w.buried(t, waybill.Message{ID: "requeued", Topic: "orders", Source: "shop"})
	w.requeueLetter(t, "requeued")
	w.moveClock(t, 31*24*time.Hour)
	w.processed(t, numbered("new", "orders", 20)...)
	w.buried(t, numbered("fresh", "orders", 5)...)

	w.startRelay(t, b.Publisher(), relay.Config{})
	sub := from(b, consumer.Subscription{Group: "shipping", Topics: []string{"parcels"}})
	w.startConsumer(t, sub, w.effectHandler("shipping"), consumer.Config{})
	w.enqueue(t, numbered("first", "parcels", 200)...)

	reports := w.cleanAtOnce(t, 2)
	w.enqueue(t, numbered("last", "parcels", 200)...)
	if n := reports[janitor.Inbox]; n != 150 {
		t.Errorf("%d inbox records were removed, want 150", n)
	}
	if n := reports[janitor.Letters]; n != 30 {
		t.Errorf("%d dead letters were removed, want 30", n)
	}
	for i := range 200 {
		w.waitEffects(t, "shipping", fmt.Sprintf("first%d", i), 1)
		w.waitEffects(t, "shipping", fmt.Sprintf("last%d", i), 1)
	}
	kept := "SELECT count(*) FROM " + w.table("inbox") + " WHERE consumer = 'billing' AND message_id LIKE "
	for pattern, want := range map[string]int{"'old%'": 0, "'lost%'": 0, "'new%'": 20, "'fresh%'": 5, "'requeued'": 1} {
		if n := w.number(t, kept+pattern); n != want {
			t.Errorf("%d inbox records of %s are left, want %d", n, pattern, want)
		}
	}
	letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{})
	if err != nil || len(letters) != 7 {
		t.Errorf("%d dead letters are left (%v), want 5 fresh ones, the one that parks its key, and the pending one", len(letters), err)
	}
	if got := w.state(t, "behind").Status; got != inspect.Waiting {
		t.Errorf("the message behind the letter is %s, want Waiting", got)
	}
}

// parkOne lets a relay dead-letter a message whose key is parked then, with another behind.
func (w *world) parkOne(t *testing.T) {
	t.Helper()
	pub := &recorder{fail: func(m contract.Outgoing) error {
		if m.ID != "parks" {
			return nil
		}
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("no"))
	}}
	_, stop := w.startRelay(t, pub, relay.Config{Order: relay.Park})
	w.enqueue(t, waybill.Message{ID: "parks", Topic: "orders", Key: "k"})
	w.waitStatus(t, "parks", inspect.Dead)
	w.enqueue(t, waybill.Message{ID: "behind", Topic: "orders", Key: "k"})
	w.waitStatus(t, "behind", inspect.Waiting)
	stop()
}

func (w *world) requeueLetter(t *testing.T, id string) {
	t.Helper()
	letters, err := w.store.DeadLetters(t.Context(), deadletter.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		if l.Message.ID != id {
			continue
		}
		if ok, err := w.store.RequeueDeadLetter(t.Context(), l.Number, deadletter.Act{By: "test"}); !ok || err != nil {
			t.Fatalf("RequeueDeadLetter() = %v, %v", ok, err)
		}
	}
}

// cleanAtOnce lets several janitors clean up once, and returns how many rows of each kind
// they have removed together.
func (w *world) cleanAtOnce(t *testing.T, janitors int) map[janitor.Kind]int64 {
	t.Helper()
	var mu sync.Mutex
	removed := make(map[janitor.Kind]int64)
	var wg sync.WaitGroup
	for range janitors {
		j, err := janitor.New(w.store, janitor.Config{CleanupBatchSize: 10, Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			reports, err := j.Clean(context.Background())
			if err != nil {
				t.Errorf("Clean() = %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range reports {
				removed[r.Rows] += r.Deleted
			}
		})
	}
	wg.Wait()
	return removed
}

// TestRetentionHorizon (AS-67) starts what keeps the inbox for long enough, and refuses what does
// not, unless it is configured to allow it.
//
//test:sessions
func TestRetentionHorizon(t *testing.T) {
	t.Parallel()
	week := 7 * 24 * time.Hour
	nats, rabbit := newBroker(t, "nats").connect(t), newBroker(t, "rabbit").connect(t)
	if got := contract.RedeliveryOf(nats); got.Bound != week || got.Unbounded {
		t.Errorf("Redelivery() = %+v, want what the stream was made with", got)
	}
	if got := contract.RedeliveryOf(rabbit); got != (contract.Redelivery{Unbounded: true}) {
		t.Errorf("Redelivery() = %+v, want that queues have no bound", got)
	}
	slow := waybill.RetryPolicy{MaxRetries: 100, BaseDelay: time.Hour, MaxDelay: time.Hour}
	for _, tt := range []struct {
		name   string
		broker service.Broker
		cfg    service.Config
		want   string // part of the error, "" for none
	}{
		{"defaults on NATS", nats, service.Config{}, ""},
		{"defaults on RabbitMQ, which has no bound", rabbit, service.Config{}, ""},
		{"defaults in memory", membroker.New(), service.Config{}, ""},
		{"a day on NATS", nats, service.Config{Janitor: janitor.Config{InboxRetention: 24 * time.Hour}}, "is 1d, but a message may be delivered again 7d after"},
		{"a day on NATS, forced", nats, service.Config{
			Janitor: janitor.Config{InboxRetention: 24 * time.Hour}, Consumer: consumer.Config{AllowShortRetention: true},
		}, ""},
		{"a day in memory", membroker.New(), service.Config{Janitor: janitor.Config{InboxRetention: 24 * time.Hour}}, ""},
		{"a minute in memory", membroker.New(), service.Config{Janitor: janitor.Config{InboxRetention: time.Minute}}, "is 1m0s, but a message may be delivered again 1m14.4s after"},
		{"a relay that retries for days", nats, service.Config{Relay: relay.Config{Retry: slow}}, "the relay retries for 5d"},
		{"consumers that retry for days", membroker.New(), service.Config{
			Consumer: consumer.Config{Retry: slow}, Janitor: janitor.Config{InboxRetention: 24 * time.Hour},
		}, "the consumer for 5d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Source, tt.cfg.Observer = "shop", quiet
			_, err := service.New(memstore.New(), tt.broker, tt.cfg)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("New() = %v, want it to start", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "InboxRetention")):
				t.Errorf("New() = %v, want an error of InboxRetention with %q", err, tt.want)
			}
		})
	}
}
