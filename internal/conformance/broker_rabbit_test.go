package conformance

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

var _ broker.Broker = (*rabbitbroker.Broker)(nil)

// TestRabbitBroker runs the suite on the queues that are made by default, which are quorum queues.
func TestRabbitBroker(t *testing.T) { runRabbit(t, "quorum", "") }

//test:setup
func TestRabbitBroker_Classic(t *testing.T) { runRabbit(t, "classic", rabbitbroker.ClassicQueue) }

func runRabbit(t *testing.T, name, queueType string) {
	r := newRabbit(t)
	brokertest.Run(t, brokertest.Harness{
		Name:     "rabbitmq " + name,
		Features: brokertest.Features{MaxPayload: waybill.MaxPayloadLen},
		Open: func(t *testing.T) broker.Broker {
			return r.open(t, rabbitbroker.Config{QueueType: queueType, MaxPayload: waybill.MaxPayloadLen})
		},
		Faulty: func(t *testing.T) (brokertest.Faults, func() broker.Broker) {
			url, proxy := behindProxy(t, rabbitURL())
			return proxy, func() broker.Broker { return r.open(t, rabbitbroker.Config{URL: url, QueueType: queueType}) }
		},
		PublishRaw: r.publishRaw,
		Goroutines: []string{"github.com/rabbitmq/amqp091-go"},
	})
	t.Parallel() // once goroutines were counted
}

func rabbitURL() string {
	if url := os.Getenv("RABBITMQ_URL"); url != "" {
		return url
	}
	return "amqp://guest:guest@127.0.0.1:5672/"
}

// rabbit is a test's own exchange on the server, and a look past the adapter.
type rabbit struct {
	exchange string
	conn     *amqp.Connection

	mu     sync.Mutex
	queues map[string]bool // to be deleted
}

func newRabbit(t *testing.T) *rabbit {
	t.Helper()
	conn, err := amqp.Dial(rabbitURL())
	if err != nil {
		t.Fatalf("RabbitMQ does not answer (%v); start it with: make services", err)
	}
	r := &rabbit{exchange: "waybill-test-" + waybill.NewID(), conn: conn, queues: make(map[string]bool)}
	t.Cleanup(func() { r.clean(t) })
	return r
}

// version is that of the server, such as "4.0.5".
func (r *rabbit) version() string {
	version, _ := r.conn.Properties["version"].(string)
	return version
}

// clean deletes what the test has made, retry queues included.
func (r *rabbit) clean(t *testing.T) {
	defer r.conn.Close()
	ch, err := r.conn.Channel()
	if err != nil {
		t.Errorf("clean up: %v", err)
		return
	}
	for queue := range r.queues {
		for _, name := range append(retryQueues(queue), queue) {
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				t.Errorf("delete queue %s: %v", name, err)
				return
			}
		}
	}
	if err := ch.ExchangeDelete(r.exchange, false, false); err != nil {
		t.Errorf("delete exchange: %v", err)
	}
}

func retryQueues(queue string) []string {
	var names []string
	for _, ms := range []int{100, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 120_000,
		300_000, 600_000, 1_800_000, 3_600_000, 10_800_000, 43_200_000, 86_400_000} {
		names = append(names, fmt.Sprintf("%s.retry.%d", queue, ms))
	}
	return names
}

// open returns a broker on the test's exchange whose queues are deleted in the end. It does
// not close it.
func (r *rabbit) open(t *testing.T, cfg rabbitbroker.Config) rabbitBroker {
	t.Helper()
	cfg.Exchange = r.exchange
	if cfg.URL == "" {
		cfg.URL = rabbitURL()
	}
	b, err := rabbitbroker.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return rabbitBroker{b, r}
}

// rabbitBroker notes which queues are declared.
type rabbitBroker struct {
	*rabbitbroker.Broker
	rabbit *rabbit
}

func (b rabbitBroker) Subscriber(s consumer.Subscription) contract.Subscriber {
	for _, queue := range []string{s.Group, s.To} {
		if queue != "" {
			b.rabbit.note(queue)
		}
	}
	return b.Broker.Subscriber(s)
}

func (r *rabbit) note(queue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues[queue] = true
}

// publishRaw publishes with the given attributes and nothing else.
func (r *rabbit) publishRaw(t *testing.T, topic string, payload []byte, attributes map[string]string) {
	t.Helper()
	headers := amqp.Table{}
	for name, value := range attributes {
		headers["cloudEvents:"+name] = value
	}
	r.publish(t, r.exchange, topic, amqp.Publishing{Headers: headers, Body: payload})
}

// publish publishes past the adapter and waits for the confirm.
func (r *rabbit) publish(t *testing.T, exchange, key string, p amqp.Publishing) {
	t.Helper()
	ch := r.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, p)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-confirm.Done():
	case <-time.After(patience):
	}
	if !confirm.Acked() {
		t.Fatalf("the server did not confirm a message to %q", key)
	}
}

// channel returns a channel that is closed when the test ends.
func (r *rabbit) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	ch, err := r.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	return ch
}
