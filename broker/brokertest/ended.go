package brokertest

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// testConsumerEnded ends the Run of a consumer that has received more than it has started to
// handle, while the connection stays open. What it has not started goes to the next consumer of
// the group at once and in order, and what it has handled does not.
func testConsumerEnded(e *env) {
	e.patiently()
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	e.subscribe(s, 1).stop() // declares the group
	e.mustSend(messages(topic, "k", 5)...)
	sub := &counting{Subscriber: e.broker.Subscriber(s), left: 5, all: make(chan struct{})}
	handling, finish := make(chan struct{}), make(chan struct{})
	c, err := consumer.New(gives{sub}, s, forgetful{}, func(context.Context, struct{}, *waybill.Message) error {
		close(handling)
		<-finish
		return nil
	}, consumer.Config{Order: consumer.OrderByKey, Prefetch: 10, AllowShortRetention: true})
	if err != nil {
		e.Fatal(err)
	}
	ctx, end := context.WithCancel(e.context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-sub.all
	<-handling
	end()
	close(finish)
	if err := <-ended; err != nil {
		e.Errorf("Run() = %v", err)
	}
	next := e.start(e.open().Subscriber(s), 10)
	for _, want := range texts(5)[1:] {
		a := next.next()
		if a.text() != want {
			e.Errorf("payload %q, want %q", a.text(), want)
		}
		ack(e.T, a)
	}
	never(e, moment, "a sixth delivery", next.got)
}

// gives is a broker with one subscriber.
type gives struct{ sub contract.Subscriber }

func (g gives) Subscriber(consumer.Subscription) contract.Subscriber { return g.sub }

// counting is a subscriber that signals when a number of messages have been passed on.
type counting struct {
	contract.Subscriber
	left int
	all  chan struct{}
}

func (c *counting) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	return c.Subscriber.Subscribe(ctx, prefetch, withoutProbes(func(d contract.Delivery) {
		deliver(d)
		if c.left--; c.left == 0 {
			close(c.all)
		}
	}))
}

// forgetful is an inbox that remembers nothing.
type forgetful struct{}

func (forgetful) ProcessOnce(ctx context.Context, _ inbox.Record, fn func(context.Context, struct{}) error) (inbox.Outcome, error) {
	return inbox.Processed, fn(ctx, struct{}{})
}

func (forgetful) FailedAttempts(context.Context, inbox.Key) (contract.Attempts, error) {
	return contract.Attempts{}, nil
}

func (forgetful) SaveAttempt(context.Context, inbox.Key, contract.FailedAttempt) error { return nil }

func (forgetful) SaveStarts(context.Context, inbox.Key, int) error { return nil }

func (forgetful) BuryMessage(context.Context, inbox.Letter) (bool, error) { return true, nil }

func (forgetful) TakeRequeued(context.Context, string, time.Duration) (contract.Requeued, bool, error) {
	return contract.Requeued{}, false, nil
}

func (forgetful) RunRequeued(context.Context, contract.Requeued, string, func(context.Context, struct{}) error) (bool, error) {
	return false, nil
}
