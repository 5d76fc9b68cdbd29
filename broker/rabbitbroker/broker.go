package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/opening"
	"github.com/waybill-go/waybill/request"
)

// Broker is a RabbitMQ server to publish to and to consume from, by one connection each, so that the
// server's back-pressure on publishers blocks no consumer. It is safe for concurrent use.
type Broker struct {
	cfg       Config
	nodes     []node
	address   string       // of all nodes, for error texts
	turn      atomic.Int64 // which node the next connection is made to
	topology  topology     // without the server's version; see current
	publisher *publisher
	consumers link

	mu     sync.Mutex
	conns  map[*conn]struct{}
	server version         // as the latest connection reported
	told   map[string]bool // queues that were logged
	closed bool
}

// Open connects to a server and declares the exchange, unless cfg.DeclareNothing is set. The error is an
// [*waybill.InvalidError] if cfg is wrong, and permanent if the exchange exists with other settings. A
// server that does not answer, or refuses the user, is not an error: it is logged, and each use of the
// broker fails as unavailable until the server accepts the connection. A connection that is lost later
// is likewise re-established when it is needed. The caller must call [Broker.Close].
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	cfg, nodes, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg:     cfg,
		nodes:   nodes,
		address: addresses(nodes),
		conns:   make(map[*conn]struct{}),
		told:    make(map[string]bool),
	}
	b.turn.Store(rand.Int64N(int64(len(nodes)))) // programs spread over the nodes
	b.topology = topology{
		exchange: cfg.Exchange, queueType: cfg.QueueType, singleActive: cfg.SingleActiveConsumer, deadLetters: cfg.DeadLetterExchange,
	}
	b.publisher = newPublisher(b)
	b.consumers = newLink(b, "waybill consumer")
	return opening.Opened(b, cfg.Log, "RabbitMQ", b.address, b.start(ctx))
}

func (b *Broker) start(ctx context.Context) error {
	if err := b.publisher.take(ctx); err != nil {
		return err
	}
	defer b.publisher.release()
	_, err := b.publisher.channel(ctx)
	if refusedWith(err, amqp.PreconditionFailed) != nil {
		return waybill.PermanentError(waybill.ReasonRejected, err)
	}
	return err
}

// Publisher returns what a relay publishes with.
func (b *Broker) Publisher() contract.Publisher { return b.publisher }

// Subscriber returns what the consumer group of sub receives with. Its Subscribe reports an invalid sub.
func (b *Broker) Subscriber(sub consumer.Subscription) contract.Subscriber {
	return &subscriber{broker: b, sub: sub}
}

// Declare declares the exchange, the queues of sub and their bindings, as Subscribe does, so that
// messages for the group are routed from now on, even before it receives. The error is permanent if
// something of that name exists with other arguments, else unavailable.
func (b *Broker) Declare(ctx context.Context, sub consumer.Subscription) error {
	s := &subscriber{broker: b, sub: sub}
	if err := s.validate(1); err != nil {
		return err
	}
	return s.refusal(b.publisher.declare(ctx, func(d *declarer) error {
		queues, err := d.declare(b.current().subscription(sub))
		b.tell(queues)
		return err
	}))
}

// current is the topology that the connected server supports.
func (b *Broker) current() topology {
	t := b.topology
	b.mu.Lock()
	defer b.mu.Unlock()
	t.server = b.server
	return t
}

// tell logs remarks about queues, by their names and arguments, once for each.
func (b *Broker) tell(queues map[string]amqp.Table) {
	t := b.current()
	for name, args := range queues {
		if request.IsAddress(name) {
			continue
		}
		if remark := t.remark(args); remark != "" && b.firstTold(name) {
			b.cfg.Log.Info("RabbitMQ queue "+remark, "queue", name)
		}
	}
}

func (b *Broker) firstTold(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.told[queue]
	b.told[queue] = true
	return first
}

// Ping reports whether the server can be reached, takes messages, confirms them, and returns unroutable
// ones. It publishes a message that no queue gets.
func (b *Broker) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	defer cancel()
	err := b.publisher.publishOne(ctx, &publishing{
		exchange:   amqp.DefaultExchange,
		key:        "waybill-ping-" + waybill.NewID(),
		Publishing: amqp.Publishing{Headers: amqp.Table{}},
	})
	switch {
	case err == nil:
		return errors.New("rabbitbroker: a message that no queue gets was confirmed and not returned")
	case errors.Is(err, errUnroutable):
		return nil
	}
	return err
}

// Close ends all connections. Publishes in flight fail as unavailable, a running Subscribe returns an
// error, and the server redelivers unsettled messages. It always returns nil, and may be called again.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	conns := b.conns
	b.conns = nil
	b.mu.Unlock()
	var wg sync.WaitGroup
	for c := range conns {
		wg.Go(func() { c.close(errClosed) })
	}
	wg.Wait()
	return nil
}

var errClosed = errors.New("rabbitbroker: broker is closed")

// parts returns what is declared on demand: all of list, or, with DeclareNothing, only reply queues,
// which are temporary.
func (b *Broker) parts(list []part) []part {
	if !b.cfg.DeclareNothing {
		return list
	}
	return slices.DeleteFunc(list, func(p part) bool { return !p.isReplyQueue() })
}

// dial makes a connection that Close will end.
func (b *Broker) dial(ctx context.Context, name string) (*conn, error) {
	if b.isClosed() {
		return nil, waybill.UnavailableError(errClosed)
	}
	c, err := b.dialNode(ctx, name)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		c.cut()
		return nil, waybill.UnavailableError(errClosed)
	}
	b.conns[c] = struct{}{}
	b.server = versionOf(c.Properties)
	return c, nil
}

// dialNode connects to the next node in rotation, or to the first after it that answers.
func (b *Broker) dialNode(ctx context.Context, name string) (*conn, error) {
	var failed error
	for range b.nodes {
		c, err := dial(ctx, &b.cfg, b.nodes[b.turn.Add(1)%int64(len(b.nodes))], name)
		switch {
		case err == nil:
			return c, nil
		case failed == nil:
			failed = err
		default:
			failed = fmt.Errorf("%w; %w", failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func (b *Broker) forget(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

func (b *Broker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
