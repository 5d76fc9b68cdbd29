package kafkabroker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/opening"
)

// Broker is a connection to a Kafka cluster. It is safe for concurrent use.
type Broker struct {
	cfg      Config
	client   *kgo.Client // for requests that neither publish nor receive
	admin    *kadm.Client
	topics   *topics
	producer *producer
	outbox   *outbox // nil without [Config.TransactionalID]

	closeOnce sync.Once
	done      chan struct{} // closed when Close begins
	runs      sync.WaitGroup
	mu        sync.Mutex // ensures that no run begins once done is closed
}

// Open connects to the cluster. An invalid cfg is an [*waybill.InvalidError]. A cluster that does not
// answer within ten seconds, or refuses the user, is not an error: it is logged, and each use of the
// broker fails as unavailable until the cluster accepts it. Connections are made when they are
// needed, until the broker is closed.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(cfg.options(kgo.MetadataMinAge(minMetadataAge))...)
	if err != nil {
		return nil, invalidf("Options", "are refused by the client library: %v", err)
	}
	b := &Broker{cfg: cfg, client: client, admin: kadm.NewClient(client), done: make(chan struct{})}
	b.topics = newTopics(cfg, b.admin)
	b.producer = &producer{cfg: cfg, topics: b.topics}
	if cfg.TransactionalID != "" {
		b.outbox = newOutbox(cfg, client, b.topics)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return opening.Opened(b, cfg.Log, "Kafka", cfg.hosts(), b.Ping(ctx))
}

// Publisher returns the publishing side. With [Config.TransactionalID], messages that have a
// [contract.Row] are published in transactions.
func (b *Broker) Publisher() contract.Publisher {
	plain := publisher{b.producer}
	if b.outbox != nil {
		return exactPublisher{b.outbox, plain}
	}
	return plain
}

// Subscriber returns a receiver for one consumer group. Its Subscribe reports an invalid s.
func (b *Broker) Subscriber(s consumer.Subscription) contract.Subscriber {
	return &subscriber{broker: b, subscription: s}
}

// Ping reports whether a broker of the cluster answers.
func (b *Broker) Ping(ctx context.Context) error {
	if b.closed() {
		return waybill.UnavailableError(errClosed)
	}
	if err := ctx.Err(); err != nil {
		return waybill.UnavailableError(fmt.Errorf("kafkabroker: ping: %w", err))
	}
	return classify("ping", b.client.Ping(ctx))
}

// Close commits acknowledged offsets, leaves the groups and ends the connections. Unsettled
// deliveries are redelivered. It may be called twice.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.mu.Lock()
		close(b.done)
		b.mu.Unlock()
		b.runs.Wait()
		b.producer.close()
		if b.outbox != nil {
			b.outbox.close()
		}
		b.client.Close()
	})
	return nil
}

func (b *Broker) closed() bool { return brokerkit.Closed(b.done) }

// begin registers a run, which must end with runs.Done, unless the broker is closed.
func (b *Broker) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed() {
		return false
	}
	b.runs.Add(1)
	return true
}

// lookTimeout bounds a first look at the cluster: whether it answers, and which topics it has.
const lookTimeout = 10 * time.Second

// minMetadataAge is how long the client believes that a topic is missing.
const minMetadataAge = 100 * time.Millisecond

// pause waits before the attempt after the n-th, and returns false once the broker is closed.
func (b *Broker) pause(ctx context.Context, n int) bool {
	timer := time.NewTimer(brokerkit.Backoff(100*time.Millisecond, n+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-b.done:
		return false
	}
	return true
}
