package main

import (
	"context"
	"errors"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
)

func rabbitAdapter(ctx context.Context, w *world, payload []byte) (traffic, error) {
	b, err := rabbitbroker.Open(ctx, rabbitbroker.Config{URL: w.rabbit, Exchange: w.name, QueueType: rabbitbroker.ClassicQueue})
	if err != nil {
		return nil, err
	}
	return adapterTraffic{b, w.name, payload}, b.Declare(ctx, consumer.Subscription{Group: w.name, Topics: []string{topic}})
}

// rabbitHand is the loop that one would write with amqp091.
type rabbitHand struct {
	conn   *amqp.Connection
	ch     *amqp.Channel
	name   string          // of exchange and queue
	sample amqp.Publishing // as the adapter writes it
}

func rabbitByHand(ctx context.Context, w *world, payload []byte) (traffic, error) {
	ours, err := rabbitAdapter(ctx, w, payload) // makes exchange and queue
	if err != nil {
		return nil, err
	}
	defer ours.close()
	if err := ours.publish(ctx, 1); err != nil {
		return nil, err
	}
	h := &rabbitHand{name: w.name}
	if h.conn, err = amqp.Dial(w.rabbit); err != nil {
		return nil, err
	}
	if err := h.prepare(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// prepare takes a message of the adapter's out of the queue as a sample.
func (h *rabbitHand) prepare() (err error) {
	if h.ch, err = h.conn.Channel(); err != nil {
		return err
	}
	d, ok, err := h.ch.Get(h.name, true)
	if err != nil || !ok {
		return errors.Join(err, errors.New("the queue has no sample"))
	}
	h.sample = amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		CorrelationId: d.CorrelationId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
	return h.ch.Confirm(false)
}

func (h *rabbitHand) close() { h.conn.Close() }

func (h *rabbitHand) publish(ctx context.Context, n int) error {
	var pending []*amqp.DeferredConfirmation
	for n > 0 || len(pending) > 0 {
		if n > 0 && len(pending) < window {
			p := h.sample
			p.MessageId = waybill.NewID()
			p.Headers = maps.Clone(h.sample.Headers)
			c, err := h.ch.PublishWithDeferredConfirmWithContext(ctx, h.name, topic, true, false, p)
			if err != nil {
				return err
			}
			pending, n = append(pending, c), n-1
			continue
		}
		if ok, err := pending[0].WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("not confirmed"))
		}
		pending = pending[1:]
	}
	return nil
}

func (h *rabbitHand) receive(ctx context.Context, n int) (last time.Time, _ error) {
	if err := h.ch.Qos(window, 0, false); err != nil {
		return last, err
	}
	list, err := h.ch.ConsumeWithContext(ctx, h.name, "", false, false, false, false, nil)
	if err != nil {
		return last, err
	}
	for range n {
		d, ok := <-list
		if !ok {
			return last, amqp.ErrClosed
		}
		if err := d.Ack(false); err != nil {
			return last, err
		}
	}
	return time.Now(), nil
}
