package brokertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// probeType marks messages that the suite sends only to see that a group receives.
const probeType = "brokertest.probe"

// arrival is one delivery with what the suite checks about it.
type arrival struct {
	contract.Delivery
	message *waybill.Message
	err     error
	at      time.Time
}

func (a arrival) String() string { return "a delivery of " + a.text() }

func (a arrival) text() string { return string(a.message.Payload) }

// group is a running subscription. Its deliveries arrive on got in order; probes are
// acknowledged and omitted.
type group struct {
	*env
	got    chan arrival
	cancel context.CancelFunc
	ended  chan error // receives the result of Subscribe
	alive  chan struct{}
	once   sync.Once
}

// subscribe starts a subscription on the test's own connection and returns once the group
// receives what is published to each of its addresses.
func (e *env) subscribe(s consumer.Subscription, prefetch int) *group {
	e.Helper()
	return e.subscribeOn(e.broker, s, prefetch)
}

func (e *env) subscribeOn(b broker.Broker, s consumer.Subscription, prefetch int) *group {
	e.Helper()
	g := e.start(b.Subscriber(s), prefetch)
	for _, topic := range s.Topics {
		g.awaitProbe(message(topic, ""))
	}
	if s.To != "" {
		m := message("", "")
		m.To = s.To
		g.awaitProbe(m)
	}
	return g
}

// start runs sub.Subscribe until the test ends.
func (e *env) start(sub contract.Subscriber, prefetch int) *group {
	ctx, cancel := context.WithCancel(context.Background())
	g := &group{
		env:    e,
		got:    make(chan arrival, 10_000),
		cancel: cancel,
		ended:  make(chan error, 1),
		alive:  make(chan struct{}, 1),
	}
	go func() { g.ended <- sub.Subscribe(ctx, prefetch, g.deliver) }()
	e.Cleanup(g.stop)
	return g
}

func (g *group) deliver(d contract.Delivery) {
	m, err := d.Message()
	if m.Type != probeType {
		g.got <- arrival{Delivery: d, message: m, err: err, at: time.Now()}
		return
	}
	if err := d.Ack(context.Background()); err == nil {
		select {
		case g.alive <- struct{}{}:
		default:
		}
	}
}

// withoutProbes passes on all but probes. A test that subscribes without [env.start] must
// expect probes that arrive after the group was found ready.
func withoutProbes(deliver func(contract.Delivery)) func(contract.Delivery) {
	return func(d contract.Delivery) {
		if m, _ := d.Message(); m.Type == probeType {
			d.Ack(context.Background())
			return
		}
		deliver(d)
	}
}

// awaitProbe publishes copies of m until one arrives. A broker may refuse some of them until
// the group is declared, or pass them to the group's other subscriber.
func (g *group) awaitProbe(m waybill.Message) {
	g.Helper()
	m.Type = probeType
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		m.ID = waybill.NewID()
		g.send(m)
		select {
		case <-g.alive:
			return
		case err := <-g.ended:
			g.Fatalf("Subscribe() = %v before a message arrived", err)
		case <-tick.C:
		case <-deadline.C:
			g.Fatalf("no message arrived within %v of Subscribe()", patience)
		}
	}
}

// stop ends the subscription and fails the test unless Subscribe returns nil.
func (g *group) stop() {
	g.Helper()
	g.once.Do(func() {
		g.cancel()
		select {
		case err := <-g.ended:
			if err != nil {
				g.Errorf("Subscribe() = %v after its context was cancelled, want nil", err)
			}
		case <-time.After(patience):
			g.Errorf("Subscribe() has not returned %v after its context was cancelled", patience)
		}
	})
}

// lose closes the connection that the group uses. Subscribe may return any error for that.
func (g *group) lose(b broker.Broker) {
	g.Helper()
	if err := b.Close(); err != nil {
		g.Errorf("Close() = %v, want nil", err)
	}
	g.once.Do(func() {
		g.cancel()
		select {
		case <-g.ended:
		case <-time.After(patience):
			g.Errorf("Subscribe() has not returned %v after Close()", patience)
		}
	})
}

// next returns the next delivery.
func (g *group) next() arrival {
	g.Helper()
	return g.nextWithin(patience)
}

func (g *group) nextWithin(d time.Duration) arrival {
	g.Helper()
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	select {
	case a := <-g.got:
		return a
	case err := <-g.ended:
		g.ended <- err
		g.Fatalf("Subscribe() = %v while a message was expected", err)
	case <-deadline.C:
		g.Fatalf("no message within %v", d)
	}
	panic("unreachable")
}

// expect takes and acknowledges deliveries and fails unless their payloads are want, in
// that order, each decoded and delivered for the first time.
func (g *group) expect(want ...string) {
	g.Helper()
	for i, text := range want {
		a := g.next()
		if a.err != nil {
			g.Fatalf("delivery %d: Message() = %v", i+1, a.err)
		}
		if a.text() != text {
			g.Fatalf("delivery %d has payload %q, want %q", i+1, a.text(), text)
		}
		if a.Redelivered() {
			g.Errorf("delivery %d, payload %q: Redelivered() = true, want false", i+1, text)
		}
		ack(g.T, a)
	}
}

func ack(t *testing.T, d contract.Delivery) {
	t.Helper()
	if err := d.Ack(context.Background()); err != nil {
		t.Fatalf("Ack() = %v", err)
	}
}

func (g *group) retry(d contract.Delivery, delay time.Duration) {
	g.Helper()
	if err := d.Retry(g.context(), delay); err != nil {
		g.Fatalf("Retry(%v) = %v", delay, err)
	}
}
