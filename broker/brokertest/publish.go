package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

func testEmptyBatch(e *env) {
	if results := e.send(); len(results) != 0 {
		e.Errorf("wait() = %v for no messages, want none", results)
	}
}

func testOrder(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 100)
	e.mustSend(messages(topic, "k", 500)...)
	g.expect(texts(500)...)
}

// testConcurrentBatches has several senders with several batches in flight each, and waits
// for the batches of a sender in reverse.
func testConcurrentBatches(e *env) {
	const senders, batches, size = 8, 5, 40
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 100)
	ctx, pub := e.context(), e.broker.Publisher()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			var waits []func() []error
			msgs := messages(topic, fmt.Sprint("k", s), batches*size)
			for b := range batches {
				waits = append(waits, pub.Send(ctx, outgoing(msgs[b*size:(b+1)*size])))
			}
			for b := batches - 1; b >= 0; b-- {
				if err := errors.Join(waits[b]()...); err != nil {
					e.Errorf("sender %d, batch %d: %v", s, b, err)
				}
			}
		})
	}
	wg.Wait()
	g.expectPerKey(senders, batches*size)
}

// expectPerKey takes n messages of each of the given number of keys, in order per key.
func (g *group) expectPerKey(keys, n int) {
	g.Helper()
	last := make(map[string]int)
	for range keys * n {
		a := g.next()
		last[a.message.Key]++
		if want := fmt.Sprint(last[a.message.Key]); a.text() != want {
			g.Fatalf("key %s: payload %q, want %q", a.message.Key, a.text(), want)
		}
		ack(g.T, a)
	}
	if len(last) != keys {
		g.Errorf("%d keys, want %d", len(last), keys)
	}
}

// testOwnership uses the payload's bytes again as soon as wait has returned, and checks that
// Send changed nothing in the message.
func testOwnership(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	m := message(topic, "original")
	m.Headers = map[string]string{"h": "v"}
	before := m.Clone()
	e.mustSend(m)
	e.same(&m, &before)
	copy(m.Payload, "XXXXXXXX")
	m.Headers["h"] = "X"
	a := g.next()
	if a.text() != "original" || a.message.Headers["h"] != "v" {
		e.Errorf("payload %q, header %q, want those at the time of Send", a.text(), a.message.Headers["h"])
	}
	ack(e.T, a)
}

func testOneUnroutable(e *env) {
	e.oneRefused(waybill.ReasonUnroutable, func(m *waybill.Message) { m.Topic = e.unroutable() })
}

func testOneTooLarge(e *env) {
	e.oneRefused(waybill.ReasonTooLarge, func(m *waybill.Message) {
		m.Payload = bytes.Repeat([]byte("x"), 2*e.h.Features.MaxPayload)
	})
}

// oneRefused sends a hundred messages of which spoil makes one unacceptable, three times, so
// that the connection must survive it.
func (e *env) oneRefused(reason waybill.Reason, spoil func(*waybill.Message)) {
	e.Helper()
	const n, bad = 100, 37
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 100)
	for range 3 {
		msgs := messages(topic, "k", n)
		spoil(&msgs[bad])
		for i, err := range e.send(msgs...) {
			if i != bad && err != nil {
				e.Fatalf("message %d: %v, want it accepted", i, err)
			}
			if i == bad && (!waybill.IsPermanent(err) || waybill.ReasonOf(err) != reason) {
				e.Errorf("message %d: error %v of kind %v, reason %s, want permanent, %s",
					i, err, waybill.KindOf(err), waybill.ReasonOf(err), reason)
			}
		}
		want := texts(n)
		g.expect(append(want[:bad:bad], want[bad+1:]...)...)
	}
}

func testDeadlinePassed(e *env) {
	topic := e.name("t")
	e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	e.expectUnavailable(e.broker, ctx, topic)
}

func testPublishClosed(e *env) {
	b := e.open()
	if err := b.Close(); err != nil {
		e.Fatal(err)
	}
	e.beforeDeadline(e.expectUnavailable(b, e.context(), e.name("t")))
}

func (e *env) expectUnavailable(b broker.Broker, ctx context.Context, topic string) (results []error) {
	e.Helper()
	const n = 10
	results = b.Publisher().Send(ctx, outgoing(messages(topic, "k", n)))()
	if len(results) != n {
		e.Fatalf("wait() returned %d results, want %d", len(results), n)
	}
	for i, err := range results {
		if !waybill.IsUnavailable(err) {
			e.Errorf("message %d: %v of kind %v, want unavailable", i, err, waybill.KindOf(err))
		}
	}
	return results
}

// sendAs publishes one message under a deduplication id and returns its result.
func (e *env) sendAs(m waybill.Message, dedupID string, resent bool) error {
	e.Helper()
	out := []contract.Outgoing{{Message: &m, DedupID: dedupID, Resent: resent}}
	return e.broker.Publisher().Send(e.context(), out)()[0]
}

func testSwallowed(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	m := message(topic, "1")
	e.mustSend(m)
	if err := e.sendAs(m, m.ID, false); !errors.Is(err, contract.ErrSwallowed) || !waybill.IsTransient(err) {
		e.Errorf("first attempt under a known id: %v of kind %v, want transient ErrSwallowed", err, waybill.KindOf(err))
	}
	e.mustSend(message(topic, "2"))
	g.expect("1", "2")
}

func testResent(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	m := message(topic, "1")
	e.mustSend(m)
	if err := e.sendAs(m, m.ID, true); err != nil {
		e.Errorf("resent message: %v, want it accepted", err)
	}
	e.mustSend(message(topic, "2"))
	if e.h.Features.Deduplicates {
		g.expect("1", "2")
	} else {
		g.expect("1", "1", "2")
	}
}

func testNewLife(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	m := message(topic, "1")
	e.mustSend(m)
	if err := e.sendAs(m, m.ID+"#r1", false); err != nil {
		e.Errorf("first attempt after a requeue: %v, want it accepted", err)
	}
	g.expect("1", "1")
}

// testDedupWindow: the relay learns from the publisher what the broker declares.
func testDedupWindow(e *env) {
	want := e.broker.Capabilities().DedupWindow
	var got time.Duration
	if d, ok := e.broker.Publisher().(contract.Deduplicator); ok {
		got = d.DedupWindow()
	}
	if got != want || e.h.Features.Deduplicates && got == 0 {
		e.Errorf("the publisher's window is %v, declared is %v", got, want)
	}
}

// testIDPerSource relies on ids being unique per source only: the second message must be
// neither dropped nor, sent again, taken for delivered.
func testIDPerSource(e *env) {
	topic := e.name("t")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	a, b, c := message(topic, "a"), message(topic, "b"), message(topic, "c")
	b.ID, b.Source = a.ID, "brokertest-2"
	c.ID, c.Source = a.ID, "brokertest-3"
	e.mustSend(a, b)
	if err := e.sendAs(c, c.ID, true); err != nil {
		e.Errorf("message of a third source: %v, want it accepted", err)
	}
	g.expect("a", "b", "c")
}
