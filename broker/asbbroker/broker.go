package asbbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/opening"
)

// closeTimeout bounds how long closing a link or a connection gracefully may take.
const closeTimeout = 2 * time.Second

// Broker is a namespace to publish to and to consume from, by one connection each. It is safe for
// concurrent use.
type Broker struct {
	cfg        Config
	connection string // connection string; holds the key
	host       string // for error texts
	names      names
	topology   *topology
	publisher  *publisher
	consumers  *azservicebus.Client

	ctx    context.Context // ends with the broker
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // what Close waits for
}

// Open connects to a namespace. The error is an [*waybill.InvalidError] if cfg is wrong. A service
// that does not answer, or refuses the key, is not an error: it is logged, and each use of the broker
// fails as unavailable until the service accepts the connection. A connection that is lost later is
// likewise re-established when it is needed. The caller must call [Broker.Close].
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	cfg, connection, host, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, connection: connection, host: host, names: names{cfg.TopicPrefix, cfg.QueuePrefix}}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	b.publisher = newPublisher(b)
	if b.topology, err = newTopology(b); err != nil {
		return nil, err
	}
	if b.consumers, err = b.newClient(receiveRetries); err != nil {
		return nil, err
	}
	return opening.Opened(b, cfg.Log, "Azure Service Bus", host, b.Ping(ctx))
}

// receiveRetries lets the client library repair a receiver quickly; Subscribe handles what takes
// longer. noRetries leaves the retry of a lost message to the relay.
var (
	receiveRetries = azservicebus.RetryOptions{MaxRetries: 2, RetryDelay: 50 * time.Millisecond, MaxRetryDelay: time.Second}
	noRetries      = azservicebus.RetryOptions{MaxRetries: -1}
)

// newClient prepares a connection, which is established on first use.
func (b *Broker) newClient(retries azservicebus.RetryOptions) (*azservicebus.Client, error) {
	client, err := azservicebus.NewClientFromConnectionString(b.connection, &azservicebus.ClientOptions{
		ApplicationID: "waybill", RetryOptions: retries,
	})
	if err != nil { // not wrapped: the text may quote the key
		return nil, invalid("URL", "is no connection string of Service Bus")
	}
	return client, nil
}

// Publisher returns what a relay publishes with.
func (b *Broker) Publisher() contract.Publisher { return b.publisher }

// Subscriber returns what the consumer group of sub receives with. Its Subscribe reports an invalid
// sub.
func (b *Broker) Subscriber(sub consumer.Subscription) contract.Subscriber {
	return &subscriber{broker: b, sub: sub}
}

// errPinged says that an entity exists whose name was made up.
var errPinged = errors.New("asbbroker: the service has a queue that nobody has made")

// Ping reports whether the service can be reached and takes the key. It asks for a queue that
// does not exist: the answer comes from where a message would be confirmed.
func (b *Broker) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	defer cancel()
	err := b.publisher.probe(ctx, b.names.queue("waybill-ping-"+waybill.NewID()))
	switch {
	case err == nil:
		return errPinged
	case waybill.ReasonOf(err) == waybill.ReasonUnroutable:
		return nil
	case waybill.IsUnavailable(err):
		return err
	}
	return waybill.UnavailableError(err)
}

// Close ends all connections. Publishes in flight fail as unavailable, a running Subscribe returns an
// error, and the service redelivers unsettled messages when their locks expire. It always returns
// nil, and may be called again.
func (b *Broker) Close() error {
	b.cancel(errClosed)
	b.publisher.close()
	closeQuietly(b.consumers)
	b.work.Wait()
	return nil
}

func (b *Broker) closed() bool { return b.ctx.Err() != nil }

// within returns a context that ends with ctx and with the broker.
func (b *Broker) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return brokerkit.Join(ctx, b.ctx)
}

// asking returns a context for requests over HTTP.
func (b *Broker) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := b.within(ctx)
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	return ctx, func() {
		cancel()
		end()
	}
}

// errorOf describes an error under the address, and as that of a closed broker if it is.
func (b *Broker) errorOf(doing string, err error) error {
	if err != nil && b.closed() {
		return waybill.UnavailableError(errClosed)
	}
	return classify(fmt.Sprintf("%s at %s", doing, b.host), err)
}

// unsentError is errorOf for a connection that ended before anything was sent on it: no message can
// be the cause.
func (b *Broker) unsentError(err error) error {
	if lost(err) && !b.closed() {
		return waybill.UnavailableError(fmt.Errorf("connect to %s: %w", b.host, err))
	}
	return b.errorOf("publish", err)
}

// closeQuietly ends a client, a sender or a receiver. What it still wants to say may be lost.
func closeQuietly(c interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.Close(ctx) // it is closed in any case
}
