package rabbitbroker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

var (
	_ contract.Delivery = (*delivery)(nil)
	_ contract.Returner = (*delivery)(nil)
)

// delivery is one message that the server has handed over.
type delivery struct {
	amqp    amqp.Delivery
	queue   string
	session *session
	again   bool        // it was delivered before, and requeued
	settled atomic.Bool // or being settled
}

var errSettled = errors.New("rabbitbroker: delivery is settled already")

// Message implements [contract.Delivery].
func (d *delivery) Message() (*waybill.Message, error) { return decode(&d.amqp) }

// Redelivered implements [contract.Delivery].
func (d *delivery) Redelivered() bool {
	_, retried := d.amqp.Headers[retryHeader]
	return d.again || d.amqp.Redelivered || retried
}

// Ack implements [contract.Delivery]. RabbitMQ does not answer: the message is redelivered
// if the connection ends before the server has read this.
func (d *delivery) Ack(context.Context) error {
	return d.settle(d.ack)
}

// Retry implements [contract.Delivery]. The delay is rounded up to a step of a ladder; the
// message comes back to the end of the queue.
func (d *delivery) Retry(ctx context.Context, delay time.Duration) error {
	return d.settle(func() error { return d.retry(ctx, delay, d.retries()+1) })
}

// Return implements [contract.Returner]. The message keeps its place in the queue, where a copy would not: a
// message that is given back while the session receives is requeued at its end, with all else that it holds, or
// is delivered again.
func (d *delivery) Return(context.Context) error {
	return d.settle(func() error {
		if d.session.keep(&delivery{amqp: d.amqp, queue: d.queue, session: d.session, again: true}) {
			return nil
		}
		if err := d.amqp.Nack(false, true); err != nil {
			return d.session.conn.lost(err)
		}
		return nil
	})
}

// wait sends the message on to the next of several waits.
func (d *delivery) wait(ctx context.Context, left time.Duration) error {
	return d.settle(func() error { return d.retry(ctx, left, d.retries()) })
}

// Extend implements [contract.Delivery]. It does nothing: RabbitMQ limits a delivery only by its
// consumer_timeout, 30 minutes unless configured, which cannot be extended.
func (d *delivery) Extend(context.Context) error { return nil }

// settle runs how once. If it fails the delivery stays unsettled.
func (d *delivery) settle(how func() error) error {
	if !d.settled.CompareAndSwap(false, true) {
		return errSettled // a second settlement would make the server close the channel
	}
	if err := how(); err != nil {
		d.settled.Store(false)
		return err
	}
	d.session.release()
	return nil
}

func (d *delivery) ack() error {
	if err := d.amqp.Ack(false); err != nil {
		return d.session.conn.lost(err)
	}
	return nil
}
