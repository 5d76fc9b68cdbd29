package asbbroker

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Delivery = (*delivery)(nil)

// settleTimeout bounds how long a settlement may take whose context has no earlier deadline.
const settleTimeout = 10 * time.Second

// scheduledAt is the annotation that makes the service defer a message until then.
const scheduledAt = "x-opt-scheduled-enqueue-time"

// outcome is how a receiver settles a message.
type outcome int

const (
	complete outcome = iota
	abandon
	renew
)

// origin is what a delivery came from.
type origin interface {
	// settle settles d with the service.
	settle(ctx context.Context, d *delivery, how outcome) error

	// settled makes room for another message.
	settled()
}

// delivery is one message that is locked for this receiver.
type delivery struct {
	run      *run
	from     origin
	receiver *azservicebus.Receiver // nil if it came from a session
	raw      *azservicebus.ReceivedMessage
	address  address
	fate     brokerkit.Fate
	decoded  brokerkit.Decoded
}

// Message implements [contract.Delivery].
func (d *delivery) Message() (*waybill.Message, error) {
	return d.decoded.Get(func() (*waybill.Message, error) { return decode(d.raw, d.address.topic, d.address.to) })
}

func (d *delivery) hand() bool { return d.fate.Hand() }

// Redelivered implements [contract.Delivery].
func (d *delivery) Redelivered() bool {
	_, retried := d.raw.ApplicationProperties[retryProperty]
	return d.raw.DeliveryCount > 1 || retried
}

// Ack implements [contract.Delivery]. The service has confirmed it when it returns nil.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, "acknowledge", func(ctx context.Context) error { return d.from.settle(ctx, d, complete) })
}

// Retry implements [contract.Delivery]. Without a delay the message is released in place, which
// the service counts. With one a copy waits in the group's retry queue, and the original is
// acknowledged once the copy is stored: a crash between the two duplicates the message, and
// never loses it.
func (d *delivery) Retry(ctx context.Context, delay time.Duration) error {
	return d.settle(ctx, "retry", func(ctx context.Context) error {
		if delay <= 0 {
			return d.from.settle(ctx, d, abandon)
		}
		b := d.run.broker
		if err := b.publisher.forward(ctx, b.names.waiting(d.run.sub), d.copy(time.Now().Add(delay))); err != nil {
			return err
		}
		return d.from.settle(ctx, d, complete)
	})
}

// Extend implements [contract.Delivery] by renewing the lock.
func (d *delivery) Extend(ctx context.Context) error {
	if d.fate.Settled() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return d.run.broker.errorOf("extend a delivery", d.from.settle(ctx, d, renew))
}

// settle runs how once, and makes room for another message whatever the outcome: if the
// settlement did not reach the service, it redelivers when the lock expires.
func (d *delivery) settle(ctx context.Context, doing string, how func(context.Context) error) error {
	if err := d.fate.Settle(doing, d.run.broker.closed(), errClosed); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := how(ctx)
	d.free()
	if err = d.run.broker.errorOf(doing+" a delivery", err); waybill.IsPermanent(err) {
		return waybill.UnavailableError(fmt.Errorf("%w", err)) // it is about the entity, not about the message
	}
	return err
}

func (d *delivery) free() {
	if d.fate.Handed() {
		d.run.queue.Free()
	}
	d.from.settled()
}

// giveBack makes the service redeliver the message at once, unless it is settled.
func (d *delivery) giveBack(ctx context.Context) {
	if !d.fate.Take() {
		return
	}
	if !d.run.broker.closed() {
		_ = d.from.settle(ctx, d, abandon) // it is redelivered when its lock expires
	}
	d.free()
}

// copy returns the message as it is to be redelivered at the given time: with the same body,
// properties and application properties, and where it was first published. It has its own
// message id, so that duplicate detection cannot mistake it for the original.
func (d *delivery) copy(at time.Time) *azservicebus.AMQPAnnotatedMessage {
	raw := d.raw.RawAMQPMessage
	properties := maps.Clone(raw.ApplicationProperties)
	if properties == nil {
		properties = make(map[string]any)
	}
	count, _ := properties[retryProperty].(int64)
	properties[retryProperty] = count + 1
	if d.address.topic != "" {
		properties[topicProperty] = d.address.topic
	} else if d.address.to != "" {
		properties[toProperty] = d.address.to
	}
	standard := azservicebus.AMQPAnnotatedMessageProperties{}
	if raw.Properties != nil {
		standard = *raw.Properties
	}
	if _, again := properties[messageIDProperty]; !again {
		properties[messageIDProperty] = d.raw.MessageID
	}
	standard.MessageID = waybill.NewID()
	standard.AbsoluteExpiryTime, standard.CreationTime = nil, nil
	return &azservicebus.AMQPAnnotatedMessage{
		ApplicationProperties: properties,
		Body:                  raw.Body,
		Properties:            &standard,
		MessageAnnotations:    map[any]any{scheduledAt: notBefore(at)},
	}
}

// notBefore returns t in whole milliseconds, which is what AMQP's timestamps hold, rounded up: a
// delay is never cut short.
func notBefore(t time.Time) time.Time {
	return t.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond).UTC()
}
