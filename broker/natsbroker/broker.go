package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/handover"
	"github.com/waybill-go/waybill/internal/opening"
)

const (
	connectTimeout = 5 * time.Second
	closeTimeout   = 2 * time.Second

	// pingInterval, with two pings unanswered, detects within 15 seconds a peer that is gone
	// silently.
	pingInterval = 5 * time.Second

	// writeTimeout is how long a server may leave the socket full before the connection
	// counts as lost.
	writeTimeout = 5 * time.Second
)

// Broker is a connection to JetStream. It is safe for concurrent use.
type Broker struct {
	cfg  Config
	set  Config // cfg before its zero fields were filled in
	nc   *nats.Conn
	js   jetstream.JetStream
	acks *acks

	failure   atomic.Pointer[error] // of the latest attempt to connect
	preparing sync.Mutex
	prepared  atomic.Bool // the stream was seen

	redelivery atomic.Pointer[contract.Redelivery] // of the stream when it was last looked up

	done    chan struct{} // closed when the connection has ended for good
	endOnce sync.Once

	closeOnce sync.Once

	pullers brokerkit.Set[*puller]   // those that run
	open    brokerkit.Set[*delivery] // received and not settled
}

// Open connects to NATS and makes sure that the stream exists, unless cfg.DeclareNothing is set. An
// invalid cfg, or an existing stream that is unfit, is an [*waybill.InvalidError]. A server that
// does not answer, refuses the user or has no JetStream is not an error: it is logged, and each use
// of the broker fails as unavailable until the server accepts it. The connection is re-established
// whenever it is lost, until the broker is closed.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	set := cfg
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg:  cfg,
		set:  set,
		nc:   cfg.Conn,
		done: make(chan struct{}),
	}
	if b.nc == nil {
		if b.nc, err = b.connect(); err != nil {
			return nil, invalidf("Options", "are refused by the client library: %v", err)
		}
	}
	if err = b.start(); err != nil {
		b.Close()
		return nil, err
	}
	return opening.Opened(b, cfg.Log, "NATS", cfg.hosts(), b.prepare(ctx))
}

// connect dials the servers. If none accepts the connection, it keeps trying in the background.
func (b *Broker) connect() (*nats.Conn, error) {
	failed := make(chan struct{}, 1)
	nc, err := nats.Connect(b.cfg.URL, append([]nats.Option{
		nats.Name("waybill"),
		nats.Timeout(connectTimeout),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // a password may be corrected, here or there
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			b.failure.Store(&err)
			handover.Signal(failed)
		}),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), // publishing while disconnected fails, it does not queue up
		nats.CustomReconnectDelay(reconnectDelay),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(writeTimeout),
	}, b.cfg.Options...)...)
	if err != nil || nc.IsConnected() {
		return nc, err
	}
	select { // the library reports in another goroutine what went wrong
	case <-failed:
	case <-time.After(time.Second):
	}
	return nc, nil
}

// reconnectDelay is taken each time all servers have been tried.
func reconnectDelay(round int) time.Duration {
	return brokerkit.Spread(brokerkit.Backoff(50*time.Millisecond, round))
}

// start sets up what needs no server.
func (b *Broker) start() error {
	var err error
	if b.js, err = jetstream.New(b.nc); err != nil {
		return classify("use JetStream", err)
	}
	if b.acks, err = newAcks(b.nc, b.cfg.Stream); err != nil {
		return classify("receive confirmations", err)
	}
	b.watch()
	return nil
}

// prepare makes sure that the stream exists, until that has succeeded once. With DeclareNothing it
// is only looked up. The error is unavailable as long as there is no answer.
func (b *Broker) prepare(ctx context.Context) error {
	if err := b.connected(); err != nil || b.prepared.Load() {
		return err
	}
	b.preparing.Lock()
	defer b.preparing.Unlock()
	if b.prepared.Load() {
		return nil
	}
	err := b.look(ctx)
	b.prepared.Store(err == nil)
	return err
}

func (b *Broker) look(ctx context.Context) error {
	if !b.cfg.DeclareNothing {
		return b.ensureStream(ctx)
	}
	if err := b.checkStream(ctx); waybill.IsUnavailable(err) {
		return err
	}
	return nil
}

// watch adds to the connection's handlers. The library's channels of status changes are unusable:
// they lose events, and their listener, when two come at once.
func (b *Broker) watch() {
	disconnected, reconnected, closed := b.nc.DisconnectErrHandler(), b.nc.ReconnectHandler(), b.nc.ClosedHandler()
	b.nc.SetDisconnectErrHandler(func(nc *nats.Conn, err error) {
		b.acks.lose()
		if disconnected != nil {
			disconnected(nc, err)
		}
	})
	b.nc.SetReconnectHandler(func(nc *nats.Conn) {
		for _, p := range b.pullers.All() {
			p.reconnected()
		}
		if reconnected != nil {
			reconnected(nc)
		}
	})
	b.nc.SetClosedHandler(func(nc *nats.Conn) {
		b.end()
		if closed != nil {
			closed(nc)
		}
	})
}

// Publisher returns the publishing side. Send reports unconfirmed messages as unavailable, wrapping
// contract.ErrConnectionLost if the connection ended meanwhile, and fails at once while there is no
// connection. It may block for as long as the server leaves the socket full, at most 5 seconds,
// after which the connection counts as lost.
func (b *Broker) Publisher() contract.Publisher { return publisher{b} }

// Subscriber returns a receiver for the group named by s.
func (b *Broker) Subscriber(s consumer.Subscription) contract.Subscriber {
	return &subscriber{broker: b, subscription: s}
}

// Ping asks the server for the stream. It returns nil if the stream exists and answers, an
// unavailable error if it does not, or the error that Open returns for a stream with other settings.
func (b *Broker) Ping(ctx context.Context) error {
	if err := b.connected(); err != nil {
		return err
	}
	err := b.checkStream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return waybill.UnavailableError(err)
	}
	return err
}

// Close returns unsettled deliveries to the server, so that they are redelivered at once, and ends
// the connection unless it came as Config.Conn. It waits up to about two seconds for the server;
// what it could not return by then is redelivered after AckWait. Running Subscribes return with an
// unavailable error. Close always returns nil.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.end()
		b.giveBack()
		if b.cfg.Conn == nil {
			b.nc.Close()
		}
	})
	return nil
}

// giveBack stops the pullers and refuses the deliveries that are still open.
func (b *Broker) giveBack() {
	if !b.nc.IsConnected() {
		return
	}
	var stops sync.WaitGroup
	for _, p := range b.pullers.All() {
		stops.Go(p.stop)
	}
	stops.Wait()
	open := b.open.All()
	slices.SortFunc(open, func(x, y *delivery) int { return cmp.Compare(x.sequence, y.sequence) })
	for _, d := range open {
		d.giveBack(false)
	}
	b.nc.FlushTimeout(closeTimeout)
}

// end marks the connection as gone for good.
func (b *Broker) end() {
	b.endOnce.Do(func() {
		close(b.done)
		if b.acks != nil {
			b.acks.lose()
			b.acks.unsubscribe()
		}
	})
}

// ended reports whether the broker is closed, or its connection gone for good.
func (b *Broker) ended() bool { return brokerkit.Closed(b.done) }

// connected returns nil, or an unavailable error that says why nothing can be sent now.
func (b *Broker) connected() error {
	if b.ended() {
		return waybill.UnavailableError(errClosed)
	}
	if b.nc.IsConnected() {
		return nil
	}
	if why := b.failure.Load(); why != nil {
		return waybill.UnavailableError(fmt.Errorf("%w: %w", errNotConnected, *why))
	}
	return waybill.UnavailableError(errNotConnected)
}

var (
	_ contract.Publisher  = publisher{}
	_ contract.Subscriber = (*subscriber)(nil)
	_ contract.Delivery   = (*delivery)(nil)
)
