package e2e

import (
	"testing"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/service"
)

// TestServiceWithoutABroker: a service starts while its broker is away, as README's first program
// does. It takes orders meanwhile, says that it waits, and goes on when the broker is there.
func TestServiceWithoutABroker(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, direct brokerSettings) {
		through, proxy := direct.throughProxy(t)
		proxy.Refuse(true)
		b, err := through.open(t.Context())
		if err != nil {
			t.Fatalf("open a broker that is away: %v", err)
		}
		t.Cleanup(func() { b.Close() })
		svc, err := service.New(w.store, b, service.Config{Source: "shop", Relay: quick(childLease), Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		orders := consumer.Subscription{Group: direct.group("billing"), Topics: []string{"orders"}}
		if err := svc.Consume(orders, w.effectHandler("billing"), consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		if direct.Kind == "rabbit" {
			t.Cleanup(func() { direct.deleteQueue(t, "billing") })
		}
		run(t, t.Context(), svc.Run)
		w.enqueue(t, numbered("early", "orders", 10)...)
		eventually(t, "the service says that it waits", func() bool { return svc.Health() != nil })
		proxy.Refuse(false)
		eventually(t, "all are handled, and the service is healthy", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("effects")) == 10 && svc.Health() == nil
		})
		w.nothingGivenUp(t)
	})
}

// TestRelayProgramWithoutABroker is the same for the program that relays.
func TestRelayProgramWithoutABroker(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world, direct brokerSettings) {
		through, proxy := direct.throughProxy(t)
		proxy.Refuse(true)
		if direct.Kind == "rabbit" {
			direct.declareQueue(t, "billing", "orders")
		}
		w.enqueue(t, numbered("early", "orders", 10)...)
		p := startProgram(t, t.TempDir(), "relay", "--store", w.dsn, "--schema", w.schema, "--broker", through.URL, "--log-format", "json",
			"--rabbitmq-exchange", through.Name, "--nats-stream", through.Name, "--nats-subject-prefix", through.Name+".", "--relay-poll-interval", "50ms")
		p.record(t, "broker is unavailable; each use of it tries again")
		p.record(t, "relay is running")
		proxy.Refuse(false)
		eventually(t, "all are published", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE id <> 'held' AND status <> 'Published'") == 0
		})
		if code := p.terminate(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	})
}
