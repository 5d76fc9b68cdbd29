package request

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// fakeBroker passes what is published to a function, and what is given to reply to the client.
type fakeBroker struct {
	send    func(contract.Outgoing) error
	opening error // of OpenReplies
	replies chan waybill.Message

	mu    sync.Mutex
	sent  []contract.Outgoing
	acked int
}

func newFake(send func(contract.Outgoing) error) *fakeBroker {
	return &fakeBroker{send: send, replies: make(chan waybill.Message, 1000)}
}

func (b *fakeBroker) Publisher() contract.Publisher { return b }

func (b *fakeBroker) Send(_ context.Context, msgs []contract.Outgoing) (wait func() []error) {
	b.mu.Lock()
	b.sent = append(b.sent, msgs...)
	b.mu.Unlock()
	results := make([]error, len(msgs))
	for i, m := range msgs {
		results[i] = b.send(m)
	}
	return func() []error { return results }
}

func (b *fakeBroker) OpenReplies(context.Context) (string, contract.Subscriber, error) {
	return NewAddress(), b, b.opening
}

func (b *fakeBroker) Subscribe(ctx context.Context, _ int, deliver func(contract.Delivery)) error {
	for {
		select {
		case m := <-b.replies:
			deliver(fakeDelivery{broker: b, message: &m})
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *fakeBroker) attempts() []contract.Outgoing {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent
}

func (b *fakeBroker) acks() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked
}

type fakeDelivery struct {
	contract.Delivery // panics on what a client does not call
	broker            *fakeBroker
	message           *waybill.Message
}

func (d fakeDelivery) Message() (*waybill.Message, error) { return d.message, nil }

func (d fakeDelivery) Ack(context.Context) error {
	d.broker.mu.Lock()
	defer d.broker.mu.Unlock()
	d.broker.acked++
	return nil
}

// events keeps what is observed.
type events struct {
	mu   sync.Mutex
	list []observe.Event
}

func (*events) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (e *events) Observe(_ context.Context, event observe.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) all() []observe.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list
}

// start runs a client until the test ends or stop is called.
func start(t *testing.T, b Broker, cfg Config) (c *Client, stop func()) {
	t.Helper()
	if cfg.Source == "" {
		cfg.Source = "shop"
	}
	if cfg.Observer == nil {
		cfg.Observer = new(events)
	}
	c, err := NewClient(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

// replyTo is the reply to a request.
func replyTo(m *waybill.Message, text string) waybill.Message {
	return waybill.Message{ID: waybill.NewID(), Type: "price.reply", CausationID: m.ID, Payload: []byte(text)}
}

func ask(id string) waybill.Message { return waybill.Message{ID: id, To: "prices", Type: "price"} }

const moment = time.Second // of the clock of a bubble
