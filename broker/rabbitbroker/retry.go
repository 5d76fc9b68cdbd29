package rabbitbroker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
)

// retryTimeout bounds the time between the declaration of a retry queue and the confirm of
// the message in it. It must be far below retryMargin; later the queue may expire first.
const retryTimeout = 30 * time.Second

// retry publishes a copy of the message to its retry queue, and acknowledges the original
// when the server has confirmed the copy. All its errors are unavailable: whatever stops it
// stops the next message as well.
func (d *delivery) retry(ctx context.Context, delay time.Duration, retries int32) error {
	if d.session.channel.IsClosed() { // the original is redelivered; a copy would duplicate it
		return d.session.conn.lost(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	ttl, left := step(delay)
	if err := d.publishCopy(ctx, ttl, d.copy(retries, left)); err != nil {
		return waybill.UnavailableError(fmt.Errorf("retry in %v: %w", ttl, err))
	}
	return d.ack()
}

func (d *delivery) publishCopy(ctx context.Context, ttl time.Duration, p amqp.Publishing) error {
	b, name := d.session.broker, retryQueue(d.queue, ttl)
	err := b.publisher.declare(ctx, func(dec *declarer) error {
		args, err := b.current().retryPart(d.queue, d.session.retryType(d.queue), ttl).declare(dec)
		if err == nil {
			d.session.noteType(d.queue, args)
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.publisher.publishOne(ctx, &publishing{amqp.DefaultExchange, name, p})
}

// copy returns the message as it was published, with the headers that a retry needs. It
// omits what would route the copy elsewhere or have it refused: expiration and user_id, the
// header CC, and what the server has recorded about earlier retries, in which it would
// eventually find a cycle. It is always persistent.
func (d *delivery) copy(retries int32, left time.Duration) amqp.Publishing {
	headers := maps.Clone(d.amqp.Headers)
	if headers == nil {
		headers = make(amqp.Table)
	}
	forgetRetries(headers, d.queue)
	for _, name := range [...]string{"CC", "BCC", "x-delivery-count", "x-acquired-count", retryLeftHeader} {
		delete(headers, name)
	}
	headers[retryHeader] = retries
	if left > 0 {
		headers[retryLeftHeader] = left.Milliseconds()
	}
	if _, ok := headers[routingKeyHeader]; !ok {
		headers[exchangeHeader], headers[routingKeyHeader] = d.amqp.Exchange, d.amqp.RoutingKey
	}
	return amqp.Publishing{
		Headers:         headers,
		ContentType:     d.amqp.ContentType,
		ContentEncoding: d.amqp.ContentEncoding,
		DeliveryMode:    amqp.Persistent,
		Priority:        d.amqp.Priority,
		CorrelationId:   d.amqp.CorrelationId,
		ReplyTo:         d.amqp.ReplyTo,
		MessageId:       d.amqp.MessageId,
		Timestamp:       d.amqp.Timestamp,
		Type:            d.amqp.Type,
		AppId:           d.amqp.AppId,
		Body:            d.amqp.Body,
	}
}

// forgetRetries removes from x-death the stays in retry queues of queue.
func forgetRetries(headers amqp.Table, queue string) {
	deaths, _ := headers["x-death"].([]any)
	others := slices.DeleteFunc(slices.Clone(deaths), func(death any) bool {
		table, _ := death.(amqp.Table)
		name, _ := table["queue"].(string)
		return strings.HasPrefix(name, retryPrefix(queue))
	})
	if len(others) > 0 {
		headers["x-death"] = others
		return
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool { return serverHeader(name, deaths != nil) })
}

// retries returns the number of retries so far.
func (d *delivery) retries() int32 {
	n, _ := d.amqp.Headers[retryHeader].(int32)
	return n
}

// left returns how long the message has to wait before it may be delivered.
func (d *delivery) left() time.Duration {
	ms, _ := d.amqp.Headers[retryLeftHeader].(int64)
	if ms < 0 || ms > int64(1<<63-1)/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
