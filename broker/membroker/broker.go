// Package membroker is an in-memory broker, for tests of handlers and wiring.
//
// It fulfils the contracts and passes their suite, so that what is tested with it runs on
// any broker. It proves nothing about a real one: nothing here survives the process, is
// slow, or is disconnected. All its waiting is done with timers, so it works under
// testing/synctest.
//
// A topic reaches every group whose subscription names it from [Broker.Subscriber] on; a
// destination (Message.To) has one queue, which all subscriptions that name it share. A
// message for an address that nobody has subscribed to is refused as unroutable.
package membroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

var (
	errClosed  = errors.New("membroker: connection is closed")
	errSettled = errors.New("membroker: delivery was settled before")
)

// Broker is one connection to an in-memory broker. It is safe for concurrent use.
type Broker struct {
	server *server
	closed atomic.Bool
	done   chan struct{} // closed by Close
	once   sync.Once
}

// New returns a connection to a new, empty broker, which exists for as long as connections
// to it are in use.
func New() *Broker { return connect(newServer()) }

// Connect returns one more connection to the broker that b is connected to, for tests in
// which a connection is lost.
func (b *Broker) Connect() *Broker { return connect(b.server) }

func connect(s *server) *Broker { return &Broker{server: s, done: make(chan struct{})} }

// Publisher returns the publishing side.
func (b *Broker) Publisher() contract.Publisher { return publisher{b} }

// Subscriber returns a receiver for the group named by s and declares its queue at once:
// what is published from now on waits for Subscribe.
func (b *Broker) Subscriber(s consumer.Subscription) contract.Subscriber {
	sub := &subscriber{broker: b, err: s.Validate()}
	if sub.err == nil {
		sub.queues = b.server.declare(s)
	}
	return sub
}

// Ping returns nil unless b is closed or ctx is done.
func (b *Broker) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return waybill.UnavailableError(fmt.Errorf("membroker: ping: %w", err))
	}
	if b.closed.Load() {
		return waybill.UnavailableError(errClosed)
	}
	return nil
}

// Close ends the connection. Running Subscribes return, and unsettled deliveries of it are
// redelivered at once. The broker keeps its queues. Close returns nil.
func (b *Broker) Close() error {
	b.once.Do(func() {
		b.closed.Store(true)
		close(b.done)
		b.server.drop(b)
	})
	return nil
}

// PublishRaw publishes payload to topic with exactly the given CloudEvents attributes, named
// without a prefix, and headers, as a producer of another project might: nothing is
// checked. The error is permanent if nobody has subscribed to topic.
func (b *Broker) PublishRaw(topic string, payload []byte, attributes, headers map[string]string) error {
	m := newMail(waybill.Message{Topic: topic, Payload: payload, Headers: headers})
	for name, value := range attributes {
		m.attributes = append(m.attributes, attribute{name, value})
	}
	return b.server.publish(m)
}

type publisher struct{ broker *Broker }

// Send delivers msgs to their queues at once; wait only returns the results.
func (p publisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	results := make([]error, len(msgs))
	for i := range msgs {
		results[i] = p.send(ctx, msgs[i].Message)
	}
	return func() []error { return results }
}

func (p publisher) send(ctx context.Context, m *waybill.Message) error {
	if err := p.broker.Ping(ctx); err != nil {
		return err
	}
	if n := len(m.Payload); n > waybill.MaxPayloadLen {
		return waybill.PermanentError(waybill.ReasonTooLarge,
			fmt.Errorf("membroker: payload has %d bytes, the limit is %d", n, waybill.MaxPayloadLen))
	}
	return p.broker.server.publish(encode(m))
}

var (
	_ contract.Publisher  = publisher{}
	_ contract.Subscriber = (*subscriber)(nil)
	_ contract.Delivery   = (*delivery)(nil)
)
