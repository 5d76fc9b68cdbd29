package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/opening"
)

const (
	// openTimeout bounds the first attempt to reach Redis.
	openTimeout = 10 * time.Second

	// closeTimeout bounds each step of Close.
	closeTimeout = 2 * time.Second
)

// Broker is a connection to Redis. It is safe for concurrent use.
type Broker struct {
	cfg       Config
	client    redis.UniversalClient // for commands that are answered at once
	reads     redis.UniversalClient // for blocking reads, a connection each
	publisher *publisher
	acker     *acker

	done      chan struct{} // closed by Close
	closeOnce sync.Once
	readers   sync.WaitGroup

	open brokerkit.Set[*delivery] // received and not settled
}

// Open connects to Redis and makes sure that it accepts writes. An invalid cfg is an
// [*waybill.InvalidError]. A server that does not answer, or refuses, is not an error: it is logged,
// and each use of the broker fails as unavailable until the server accepts it. Connections are made
// when they are needed, until the broker is closed.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, done: make(chan struct{})}
	if b.client, err = cfg.client(0); err != nil {
		return nil, err
	}
	if b.reads, err = cfg.client(maxReaders); err != nil {
		return nil, errors.Join(err, b.client.Close())
	}
	b.publisher = &publisher{broker: b}
	b.acker = newAcker(b)
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return opening.Opened(b, cfg.Log, "Redis", cfg.hosts(), b.Ping(ctx))
}

// Publisher returns the publishing side. Unconfirmed messages are unavailable, wrapping
// [contract.ErrConnectionLost] if the connection ended meanwhile.
func (b *Broker) Publisher() contract.Publisher { return b.publisher }

// Subscriber returns a receiver for the group named by s.
func (b *Broker) Subscriber(s consumer.Subscription) contract.Subscriber {
	return &subscriber{broker: b, subscription: s}
}

// Ping writes a key that expires within a second, to detect a server that is full, read-only or
// cannot write its files. The error is unavailable.
func (b *Broker) Ping(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	return classify("ping", b.client.Set(ctx, b.cfg.Prefix+"ping", "", time.Second).Err())
}

// Close sends pending acknowledgements, releases unsettled deliveries, so that they are redelivered
// at once, and ends the connections. It waits a few seconds at most; what it could not release by
// then is taken over after ClaimAfter. Running Subscribes return with an unavailable error. Close
// always returns nil.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		close(b.done)
		b.awaitReaders()
		b.acker.drain(closeTimeout)
		b.giveBack(b.open.All())
		_ = b.reads.Close() // what is in progress fails
		_ = b.client.Close()
	})
	return nil
}

// awaitReaders waits until nothing is received any longer.
func (b *Broker) awaitReaders() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.readers.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
	}
}

// giveBack releases unsettled deliveries to other subscribers. A reply destination has none.
func (b *Broker) giveBack(list []*delivery) {
	type owner struct {
		source
		consumer string
	}
	ids := make(map[owner][]string)
	for _, d := range list {
		if d.take() && !d.reader.source.replies() {
			o := owner{d.reader.source, d.reader.consumer}
			ids[o] = append(ids[o], d.id)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for o, list := range ids {
		_, _ = b.wait(ctx, o.source, o.consumer, 0, list...) // else it is taken over after ClaimAfter
	}
}

// wait defers entries that belong to a consumer, and returns how many did belong to it.
func (b *Broker) wait(ctx context.Context, s source, name string, delay time.Duration, ids ...string) (int, error) {
	args := []any{s.group, name, waiting, ceilMilliseconds(delay)}
	for _, id := range ids {
		args = append(args, id)
	}
	return waitScript.Run(ctx, b.client, s.keys(), args...).Int()
}

func ceilMilliseconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// extend keeps entries from being taken over, and returns how many belong to the consumer.
func (b *Broker) extend(ctx context.Context, s source, name string, ids ...string) (int, error) {
	args := []any{s.group, name}
	for _, id := range ids {
		args = append(args, id)
	}
	return extendScript.Run(ctx, b.client, s.keys()[:1], args...).Int()
}

func (b *Broker) closed() bool { return brokerkit.Closed(b.done) }

// ready returns nil, or an unavailable error that says why nothing can be sent.
func (b *Broker) ready(ctx context.Context) error {
	switch {
	case b.closed():
		return waybill.UnavailableError(errClosed)
	case ctx.Err() != nil:
		return waybill.UnavailableError(fmt.Errorf("redisbroker: %w", ctx.Err()))
	}
	return nil
}

var (
	_ contract.Publisher  = (*publisher)(nil)
	_ contract.Subscriber = (*subscriber)(nil)
	_ contract.Delivery   = (*delivery)(nil)
)
