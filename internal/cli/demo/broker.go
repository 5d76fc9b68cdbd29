package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// look is a view of the broker past our own code, and what sets up and clears away there.
type look interface {
	// ready returns when the broker has a place for the messages of every group.
	ready(ctx context.Context, broker opener.Broker) error

	// held returns how many messages the broker has taken.
	held(ctx context.Context) (int, error)

	// backlog returns how many messages a consumer has not taken yet.
	backlog(ctx context.Context, consumer string) (int, error)

	// remove takes away what the show has made, and the connection.
	remove(ctx context.Context) error
}

// audit is a group that nobody acts for. Its queue gets a copy of all that is published.
const audit = "audit"

// openLook connects to the broker in its own language.
func openLook(ctx context.Context, s site) (look, error) {
	if opener.BrokerKind(s.Broker) == opener.RabbitMQ {
		return openRabbitLook(s)
	}
	return openNATSLook(ctx, s)
}

// different returns how many different messages, by their ids, the broker has taken, out of
// the number that it holds. It reads them all.
func different(ctx context.Context, broker opener.Broker, s site, held int) (int, error) {
	if held == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(readTimeout, cancel)
	ids := make(map[string]bool)
	read := 0
	sub := broker.Subscriber(consumer.Subscription{Group: s.group(audit), Topics: []string{topic}})
	err := sub.Subscribe(ctx, 200, func(d consumer.Delivery) {
		idle.Reset(readTimeout)
		if m, err := d.Message(); err == nil {
			ids[m.ID] = true
		}
		if err := d.Ack(ctx); err != nil {
			cancel()
		}
		if read++; read == held {
			cancel()
		}
	})
	if err == nil && read < held {
		err = fmt.Errorf("read %d of the %d messages that the broker holds", read, held)
	}
	return len(ids), err
}

const readTimeout = 10 * time.Second

// natsLook looks at the stream.
type natsLook struct {
	site   site
	conn   *nats.Conn
	stream jetstream.Stream
}

func openNATSLook(ctx context.Context, s site) (look, error) {
	broker, err := s.broker(ctx) // makes the stream
	if err != nil {
		return nil, err
	}
	defer broker.Close()
	conn, err := nats.Connect(s.Broker)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err == nil {
		l := &natsLook{site: s, conn: conn}
		if l.stream, err = js.Stream(ctx, s.Name); err == nil {
			return l, nil
		}
	}
	conn.Close()
	return nil, err
}

// ready has nothing to wait for: the stream keeps what nobody reads yet.
func (l *natsLook) ready(context.Context, opener.Broker) error { return nil }

func (l *natsLook) held(ctx context.Context) (int, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(info.State.Msgs), nil
}

func (l *natsLook) backlog(ctx context.Context, consumer string) (int, error) {
	consumers := l.stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		if strings.HasPrefix(info.Name, l.site.group(consumer)+"-") {
			return int(info.NumPending) + info.NumAckPending, nil
		}
	}
	if err := consumers.Err(); err != nil {
		return 0, err
	}
	return l.held(ctx) // it has not begun
}

func (l *natsLook) remove(ctx context.Context) error {
	defer l.conn.Close()
	js, err := jetstream.New(l.conn)
	if err != nil {
		return err
	}
	return js.DeleteStream(ctx, l.site.Name)
}

// rabbitLook looks at the queues.
type rabbitLook struct {
	site site
	conn *amqp.Connection
}

func openRabbitLook(s site) (look, error) {
	conn, err := amqp.Dial(s.Broker)
	if err != nil {
		return nil, err
	}
	return &rabbitLook{site: s, conn: conn}, nil
}

// queue returns the state of a group's queue. Asking for one that does not exist ends the
// channel, so each call has its own.
func (l *rabbitLook) queue(consumer string) (amqp.Queue, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return amqp.Queue{}, err
	}
	defer ch.Close()
	return ch.QueueDeclarePassive(l.site.group(consumer), true, false, false, false, nil)
}

// ready waits until each group has its queue, bound: RabbitMQ drops, or returns, what is
// published before. The audit's queue is made by subscribing to it for a moment.
func (l *rabbitLook) ready(ctx context.Context, broker opener.Broker) error {
	ctx, cancel := context.WithTimeout(ctx, opener.Timeout)
	defer cancel()
	sub := broker.Subscriber(consumer.Subscription{Group: l.site.group(audit), Topics: []string{topic}})
	made := make(chan error, 1)
	go func() { made <- sub.Subscribe(ctx, 1, func(consumer.Delivery) {}) }()
	for _, group := range []string{audit, billing, shipping} {
		if err := l.subscribed(ctx, group); err != nil {
			return err
		}
	}
	cancel()
	return <-made
}

// subscribed waits until a group's queue has a subscriber, which comes after the bindings.
func (l *rabbitLook) subscribed(ctx context.Context, group string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if q, err := l.queue(group); err == nil && q.Consumers > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the queue %s was not made in time", l.site.group(group))
		}
	}
}

func (l *rabbitLook) held(context.Context) (int, error) {
	q, err := l.queue(audit)
	return q.Messages, err
}

func (l *rabbitLook) backlog(_ context.Context, consumer string) (int, error) {
	q, err := l.queue(consumer)
	return q.Messages, err
}

// retryDelays are the delays of the retry queues that the adapter may have made, in
// milliseconds. Those that were not made are deleted without complaint.
var retryDelays = []int{100, 250, 500, 1000, 2000, 4000, 8000}

func (l *rabbitLook) remove(context.Context) error {
	defer l.conn.Close()
	ch, err := l.conn.Channel()
	if err != nil {
		return err
	}
	var errs []error
	for _, group := range []string{audit, billing, shipping} {
		queue := l.site.group(group)
		names := []string{queue}
		for _, ms := range retryDelays {
			names = append(names, fmt.Sprintf("%s.retry.%d", queue, ms))
		}
		for _, name := range names {
			_, err := ch.QueueDelete(name, false, false, false)
			errs = append(errs, err)
		}
	}
	errs = append(errs, ch.ExchangeDelete(l.site.Name, false, false))
	return errors.Join(errs...)
}
