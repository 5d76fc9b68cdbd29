package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/traffic"
)

// memory is a store whose clock tests set, so that what is printed is the same each time.
type memory struct {
	*memstore.Store
	now     time.Time
	version error
}

var _ opener.Store = (*memory)(nil)

func (m *memory) Ping(context.Context) error                                    { return nil }
func (m *memory) SchemaVersion(context.Context) (int, error)                    { return 1, m.version }
func (m *memory) Migrations() []migrate.Migration                               { return nil }
func (m *memory) Migrate(context.Context, string, int) (int, error)             { return 1, nil }
func (m *memory) Facts(context.Context) (opener.Facts, error)                   { return opener.Facts{}, nil }
func (m *memory) Service(service.Broker, service.Config) (opener.Runner, error) { return nil, nil }
func (m *memory) Address() string                                               { return "memory" }
func (m *memory) Close() error                                                  { return nil }

// night is when things fail.
var night = time.Date(2026, 8, 1, 3, 0, 0, 0, time.UTC)

func newMemory(t *testing.T) *memory {
	t.Helper()
	m := &memory{now: night}
	m.Store = memstore.New(memstore.WithClock(func() time.Time { return m.now }))
	return m
}

func (m *memory) later(d time.Duration) { m.now = m.now.Add(d) }

// enqueue stores a message.
func (m *memory) enqueue(t *testing.T, msgs ...waybill.Message) {
	t.Helper()
	for i := range msgs {
		msgs[i].Source = "shop"
		msgs[i].Complete()
	}
	_, err := m.Transact(t.Context(), func(context.Context, *memstore.Tx) (outbox.Batch, error) { return outbox.Batch{Messages: msgs}, nil })
	if err != nil {
		t.Fatal(err)
	}
}

// lease makes a relay own its share.
func (m *memory) lease(t *testing.T, node string, ttl time.Duration) contract.Lease {
	t.Helper()
	lease, err := m.RenewLanes(t.Context(), contract.LeaseRequest{Node: node, Join: true, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// settle lets a relay settle all that may go, by what decide says of each message.
func (m *memory) settle(t *testing.T, node string, lease contract.Lease, decide func(c contract.Claim, st *contract.Settlement)) {
	t.Helper()
	claims, err := m.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: 1000, Due: true})
	if err != nil {
		t.Fatal(err)
	}
	var list []contract.Settlement
	for i := range claims {
		st := contract.Settlement{Claim: &claims[i], Attempts: claims[i].Attempts, Life: claims[i].Life}
		decide(claims[i], &st)
		list = append(list, st)
	}
	if _, err := m.SettleMessages(t.Context(), contract.SettleRequest{Node: node, Archive: true, Settlements: list}); err != nil {
		t.Fatal(err)
	}
}

// bury makes a dead letter of a consumer.
func (m *memory) bury(t *testing.T, consumer, errText string, attempts int, msg waybill.Message) {
	t.Helper()
	msg.Source = "shop"
	msg.Complete()
	_, err := m.BuryMessage(t.Context(), inbox.Letter{
		Record: inbox.RecordOf(consumer, &msg), Message: msg, Reason: waybill.ReasonRejected, Error: errText, Attempts: attempts, Node: consumer + "-1", Took: 12 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// process lets a consumer handle a message.
func (m *memory) process(t *testing.T, consumer string, msg waybill.Message) {
	t.Helper()
	msg.Source = "shop"
	msg.Complete()
	_, err := m.ProcessOnce(t.Context(), inbox.RecordOf(consumer, &msg), func(context.Context, *memstore.Tx) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// attempt notes a failed attempt of a consumer.
func (m *memory) attempt(t *testing.T, consumer, id string, count int, errText string) {
	t.Helper()
	msg := waybill.Message{ID: id, Topic: "orders", Type: "order.placed", Source: "shop"}
	err := m.SaveAttempt(t.Context(), inbox.KeyOf(consumer, &msg), contract.FailedAttempt{Count: count, Wait: time.Minute, Node: "shipping-1", Error: errText})
	if err != nil {
		t.Fatal(err)
	}
}

// incident is a night with dead letters, messages that wait, and one that has arrived.
func incident(t *testing.T) *memory {
	m := newMemory(t)
	order := func(id, key string) waybill.Message {
		return waybill.Message{ID: id, Topic: "orders", Type: "order.placed", Key: key, Payload: []byte(`{"order":"` + id + `","sum":12.5}`)}
	}
	m.now = night.Add(-9 * 24 * time.Hour)
	m.bury(t, "search", "index is read-only", 6, order("old-1", ""))
	m.bury(t, "search", "index is read-only", 6, order("old-2", ""))
	m.now = night.Add(-5 * time.Hour)
	m.bury(t, "mailer", "template is missing", 1, order("order-0", ""))
	m.now = night
	lease := m.lease(t, "relay-a", time.Hour)
	m.enqueue(t, order("order-1", "ann"))
	m.later(time.Second)
	m.settle(t, "relay-a", lease, func(c contract.Claim, st *contract.Settlement) { st.Outcome = contract.Published })
	m.later(time.Second)
	m.process(t, "shipping", order("order-1", "ann"))
	for i := range 3 {
		m.later(time.Minute)
		lost := order(fmt.Sprintf("lost-%d", i+1), "bob")
		lost.Headers = map[string]string{"x-user": "bob"}
		m.bury(t, "billing", fmt.Sprintf("no such customer: %d", 40+i), i+1, lost)
	}
	m.enqueue(t, waybill.Message{ID: "mail-1", Topic: "mails", Payload: []byte("Dear Ann")})
	m.settle(t, "relay-a", lease, func(c contract.Claim, st *contract.Settlement) {
		st.Outcome, st.Reason, st.Error = contract.Dead, waybill.ReasonUnroutable, "nothing is bound to mails"
	})
	m.enqueue(t, order("order-2", "cat"), order("order-3", "cat"))
	m.settle(t, "relay-a", lease, func(c contract.Claim, st *contract.Settlement) {
		st.Outcome = contract.Wait
		if st.Behind = c.Message.ID == "order-3"; !st.Behind {
			st.After, st.Attempts, st.Error = 10*time.Minute, 1, "channel closed: no route"
		}
	})
	m.enqueue(t, order("order-4", "dan"))
	m.attempt(t, "shipping", "order-9", 2, "warehouse is closed")
	m.plan(t)
	m.later(time.Minute)
	m.sagas(t)
	m.recorded(t)
	return m
}

// recorded is the traffic of the night: a broker that was slow for two minutes.
func (m *memory) recorded(t *testing.T) {
	t.Helper()
	for minute, data := range []string{
		`{"topics":{"orders":{"enqueued":1503,"published":1503,"handled":1500,"publish_lag":[0,1200,303],"handle_lag":[0,0,900,600]}}}`,
		`{"topics":{"orders":{"enqueued":1498,"published":310,"handled":308,"failed":4,"retried":4,"publish_lag":[0,0,0,0,0,0,0,0,0,0,0,0,300,10],"handle_lag":[0,0,0,0,0,0,0,0,0,0,0,0,300,8],"backlog":1188,"oldest_ns":38000000000}}}`,
		`{"topics":{"orders":{"enqueued":1510,"published":2698,"handled":2701,"dead":2,"publish_lag":[0,0,0,0,0,0,0,0,0,0,0,0,0,2698],"handle_lag":[0,0,0,0,0,0,0,0,0,0,0,0,0,2701],"backlog":12,"oldest_ns":1000000000}}}`,
	} {
		row := traffic.Row{Step: traffic.Minute, At: night.Add(time.Duration(minute) * time.Minute), Writer: "relay-a", Data: []byte(data)}
		if err := m.AddTraffic(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
}

// plan schedules two messages again and again, of which one is late, and one message once.
func (m *memory) plan(t *testing.T) {
	t.Helper()
	s, err := schedule.NewScheduler(m.Store, schedule.Config{Source: "shop", Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	invoices := schedule.Recurring{
		Name: "nightly-invoices", Cron: "30 4 * * *", TimeZone: "Europe/Berlin", Overlap: schedule.Skip,
		Message: waybill.Message{To: "billing", Type: "invoices.run", Payload: []byte(`{"all":true}`), Headers: map[string]string{"x-user": "cron"}},
	}
	sweep := schedule.Recurring{Name: "sweep", Every: 30 * time.Second, Message: waybill.Message{Topic: "carts", Type: "carts.sweep"}}
	_, err = m.Transact(t.Context(), func(ctx context.Context, tx *memstore.Tx) (outbox.Batch, error) {
		_, err := s.After(ctx, tx, waybill.Message{ID: "reminder-17", To: "mailer", Type: "order.remind", Key: "order-17", Payload: []byte(`{"order":17}`)}, 48*time.Hour)
		return outbox.Batch{}, errors.Join(err, s.Put(ctx, tx, invoices), s.Put(ctx, tx, sweep))
	})
	if err != nil {
		t.Fatal(err)
	}
}
