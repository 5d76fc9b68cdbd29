package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// In flight at once, for either contender: four batches of a relay's defaults.
const (
	sendBatch   = 100
	sendBatches = 4
	window      = sendBatch * sendBatches
)

// traffic publishes messages until n are confirmed, and receives n, acknowledges each, and reports
// when the last one was: a subscription may take long to end.
type traffic interface {
	publish(ctx context.Context, n int) error
	receive(ctx context.Context, n int) (last time.Time, err error)
	close()
}

// brokerPair is an adapter and a loop with its client library, on one stream or queue each.
type brokerPair struct {
	name   string
	byHand func(ctx context.Context, w *world, payload []byte) (traffic, error)
	ours   func(ctx context.Context, w *world, payload []byte) (traffic, error)
}

var brokerPairs = []brokerPair{
	{toRabbit, rabbitByHand, rabbitAdapter},
	{toNATS, natsByHand, natsAdapter},
	{toRedis, redisByHand, redisAdapter},
}

// runBrokers compares each adapter with the loop that one would write with its client library, which
// puts the same bytes on the wire and acknowledges each message.
func runBrokers(ctx context.Context, b *bench) (rows []row, _ error) {
	for _, pair := range brokerPairs {
		hand, ours, err := b.compareTraffic(ctx, pair)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", pair.name, err)
		}
		rows = append(rows,
			trafficRow(pair.name, "client library, by hand", hand, hand, nil),
			trafficRow(pair.name, "adapter", ours, hand, atLeast(80)))
	}
	return rows, nil
}

// rates are messages per second, a value for each repeat.
type rates struct{ publish, receive []float64 }

func trafficRow(table, name string, r, beside rates, want *bound) row {
	figures := []figure{{name: "published/s", values: r.publish}, {name: "received/s", values: r.receive}}
	if want != nil {
		figures = append(figures,
			figure{"published, of by hand", "%", ratios(r.publish, beside.publish), want},
			figure{"received, of by hand", "%", ratios(r.receive, beside.receive), want})
	}
	return row{table: table, name: name, figures: figures}
}

func (b *bench) compareTraffic(ctx context.Context, pair brokerPair) (hand, ours rates, err error) {
	for range b.repeats {
		if err = b.addRates(ctx, pair.byHand, &hand); err == nil {
			err = b.addRates(ctx, pair.ours, &ours)
		}
		if err != nil {
			return hand, ours, err
		}
	}
	return hand, ours, nil
}

// addRates publishes a backlog and then receives it.
func (b *bench) addRates(ctx context.Context, open func(context.Context, *world, []byte) (traffic, error), r *rates) error {
	return b.inWorld(ctx, func(w *world) error {
		t, err := open(ctx, w, make([]byte, b.payload))
		if err != nil {
			return err
		}
		defer t.close()
		began := time.Now()
		if err := t.publish(ctx, b.messages); err != nil {
			return err
		}
		r.publish = append(r.publish, float64(b.messages)/time.Since(began).Seconds())
		began = time.Now()
		last, err := t.receive(ctx, b.messages)
		if err != nil {
			return err
		}
		r.receive = append(r.receive, float64(b.messages)/last.Sub(began).Seconds())
		return nil
	})
}

// adapterTraffic is that of any adapter, as relay and consumer use it.
type adapterTraffic struct {
	broker  broker.Broker
	group   string
	payload []byte
}

func (t adapterTraffic) close() { t.broker.Close() }

func (t adapterTraffic) publish(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // a publisher always has a deadline
	defer cancel()
	var waits []func() []error
	for n > 0 || len(waits) > 0 {
		if n > 0 && len(waits) < sendBatches {
			batch := t.batch(min(n, sendBatch))
			waits = append(waits, t.broker.Publisher().Send(ctx, batch))
			n -= len(batch)
			continue
		}
		if err := errors.Join(waits[0]()...); err != nil {
			return err
		}
		waits = waits[1:]
	}
	return nil
}

func (t adapterTraffic) batch(n int) []contract.Outgoing {
	list := make([]contract.Outgoing, n)
	for i := range list {
		list[i] = contract.Outgoing{Message: t.message()}
		list[i].DedupID = list[i].ID
	}
	return list
}

// message returns the same message, except for its id, for the hand-written loop and for the
// adapter.
func (t adapterTraffic) message() *waybill.Message {
	m := &waybill.Message{Topic: topic, Type: topic, Source: "bench", Key: "key", Payload: t.payload}
	m.Complete()
	return m
}

func (t adapterTraffic) receive(ctx context.Context, n int) (last time.Time, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed atomic.Pointer[error]
	left := n
	sub := t.broker.Subscriber(consumer.Subscription{Group: t.group, Topics: []string{topic}})
	err := sub.Subscribe(ctx, window, func(d contract.Delivery) {
		_, err := d.Message()
		if err == nil && left > 0 {
			err = d.Ack(ctx)
		}
		if left--; err != nil {
			failed.Store(&err)
		}
		if left == 0 {
			last = time.Now()
		}
		if err != nil || left <= 0 {
			cancel()
		}
	})
	if failed := failed.Load(); failed != nil {
		return last, *failed
	}
	return last, err
}
