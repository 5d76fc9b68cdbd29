package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/cli/demo"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// rabbitLook looks at the queues.
type rabbitLook struct {
	site demo.Site
	conn *amqp.Connection
}

func openRabbitLook(s demo.Site) (demo.Look, error) {
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
	return ch.QueueDeclarePassive(l.site.Group(consumer), true, false, false, false, nil)
}

// Ready waits until each group has its queue, bound: RabbitMQ drops, or returns, what is
// published before. The audit's queue is created by subscribing to it for a moment.
func (l *rabbitLook) Ready(ctx context.Context, broker demo.Broker) error {
	ctx, cancel := context.WithTimeout(ctx, opener.Timeout)
	defer cancel()
	sub := broker.Subscriber(consumer.Subscription{Group: l.site.Group(demo.Audit), Topics: []string{demo.Topic}})
	made := make(chan error, 1)
	go func() { made <- sub.Subscribe(ctx, 1, func(contract.Delivery) {}) }()
	for _, group := range []string{demo.Audit, demo.Billing, demo.Shipping} {
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
			return fmt.Errorf("the queue %s was not made in time", l.site.Group(group))
		}
	}
}

// Held counts the copies for the audit.
func (l *rabbitLook) Held(context.Context) (int, error) {
	q, err := l.queue(demo.Audit)
	return q.Messages, err
}

// Backlog asks the queue.
func (l *rabbitLook) Backlog(_ context.Context, consumer string) (int, error) {
	q, err := l.queue(consumer)
	return q.Messages, err
}

// retryDelays are the delays of the retry queues that the adapter may have created, in
// milliseconds. Deleting one that does not exist is not an error.
var retryDelays = []int{100, 250, 500, 1000, 2000, 4000, 8000}

// Remove deletes queues and exchange.
func (l *rabbitLook) Remove(context.Context) error {
	defer l.conn.Close()
	ch, err := l.conn.Channel()
	if err != nil {
		return err
	}
	var errs []error
	for _, group := range []string{demo.Audit, demo.Billing, demo.Shipping} {
		queue := l.site.Group(group)
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
