package httpbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/relay"
)

const (
	dialTimeout = 5 * time.Second
	idleTimeout = 90 * time.Second

	// maxResponseHeader is the most that the headers of a response may have, in bytes.
	maxResponseHeader = 64 << 10
)

// Broker sends webhooks to endpoints, and receives them if it has a [Receiver]. It is safe for
// concurrent use.
type Broker struct {
	receiver  *Receiver
	transport *http.Transport
	senders   []*sender
	closed    chan struct{}
	closeOnce sync.Once
}

var (
	_ broker.Broker        = (*Broker)(nil)
	_ contract.Redeliverer = (*Broker)(nil)
)

// New returns a broker. It makes no connection yet; an invalid cfg is an
// [*waybill.InvalidError].
func New(cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{receiver: cfg.Receiver, transport: newTransport(cfg), closed: make(chan struct{})}
	client := &http.Client{
		Transport:     b.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, e := range cfg.Endpoints {
		keys, err := keysOf(e.Secrets)
		if err != nil {
			return nil, err
		}
		b.senders = append(b.senders, newSender(e, keys, client, cfg, b.closed))
	}
	return b, nil
}

// newTransport returns a transport that uses no proxy of the environment: the guard would see
// the proxy's address only.
func newTransport(cfg Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: guard{cfg.AllowNetworks}.control}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    cfg.Parallelism,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true, // a small response could be a large body
	}
}

// Destinations returns the endpoints for [relay.NewFanout], or as followers of a relay, each
// with its own attempts.
func (b *Broker) Destinations() []relay.Destination {
	list := make([]relay.Destination, len(b.senders))
	for i, s := range b.senders {
		list[i] = relay.Destination{Name: s.endpoint.Name, Publisher: s, Match: s.endpoint.match, Rate: s.endpoint.Rate, Structured: s.endpoint.Structured}
	}
	return list
}

// Publisher returns a publisher for messages that match one endpoint each. A message that no
// endpoint matches is unroutable, and so is one that several match: after a failure all of them
// would get it again. Use [Broker.Destinations] for those.
func (b *Broker) Publisher() contract.Publisher { return single{b} }

// single sends each message to the one endpoint that it matches.
type single struct{ broker *Broker }

func (p single) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	results := make([]error, len(msgs))
	places := make(map[*sender][]int)
	for i, m := range msgs {
		s, err := p.broker.senderOf(m.Message)
		if err != nil {
			results[i] = err
			continue
		}
		places[s] = append(places[s], i)
	}
	var waits []func()
	for s, list := range places {
		part := make([]contract.Outgoing, len(list))
		for n, i := range list {
			part[n] = msgs[i]
		}
		wait := s.Send(ctx, part)
		waits = append(waits, func() {
			for n, err := range wait() {
				results[list[n]] = err
			}
		})
	}
	return func() []error {
		for _, wait := range waits {
			wait()
		}
		return results
	}
}

// senderOf returns the only endpoint that a message matches.
func (b *Broker) senderOf(m *waybill.Message) (found *sender, err error) {
	if b.ended() {
		return nil, waybill.UnavailableError(errClosed)
	}
	matching := 0
	for _, s := range b.senders {
		if s.endpoint.match(m) {
			found = s
			matching++
		}
	}
	if matching != 1 {
		return nil, waybill.PermanentError(waybill.ReasonUnroutable, fmt.Errorf("httpbroker: %d endpoints match the message, want one", matching))
	}
	return found, nil
}

// Subscriber returns a receiver of [Config.Receiver] for one consumer group. Without one its
// Subscribe fails.
func (b *Broker) Subscriber(s consumer.Subscription) contract.Subscriber {
	if b.receiver == nil {
		return deaf{}
	}
	return b.receiver.Subscriber(s)
}

// deaf is the subscriber of a broker that only sends.
type deaf struct{}

func (deaf) Subscribe(context.Context, int, func(contract.Delivery)) error {
	return invalidf("Config.Receiver", "is not set; this broker sends only")
}

// Redelivery implements [contract.Redeliverer]. A sender may redeliver a message at any later
// time.
func (b *Broker) Redelivery() contract.Redelivery { return contract.Redelivery{Unbounded: true} }

// Capabilities implements [broker.Broker].
func (b *Broker) Capabilities() broker.Capabilities {
	return broker.Capabilities{Fanout: true, Order: broker.PerKey, MaxDelay: maxRetryAfter}
}

// Ping returns nil unless b is closed or ctx is done. It posts nothing: an endpoint could not
// tell it from a message.
func (b *Broker) Ping(ctx context.Context) error {
	err := ctx.Err()
	if b.ended() {
		err = errClosed
	}
	if err == nil {
		return nil
	}
	return waybill.UnavailableError(errors.Join(errors.New("httpbroker: ping"), err))
}

// Close lets requests in flight finish and refuses further ones, as unavailable. The receiver
// stays open. It returns nil.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		close(b.closed)
		b.transport.CloseIdleConnections()
	})
	return nil
}

func (b *Broker) ended() bool {
	select {
	case <-b.closed:
		return true
	default:
		return false
	}
}
