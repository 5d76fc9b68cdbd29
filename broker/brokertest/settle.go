package brokertest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// one subscribes one group to one topic.
func (e *env) one(prefetch int) (topic string, g *group) {
	e.Helper()
	topic = e.name("t")
	return topic, e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, prefetch)
}

// successor opens a new connection, subscribes the same group until it receives, and waits until the broker
// would have redelivered what it considers unsettled.
func (e *env) successor(topic string) {
	e.Helper()
	g := e.subscribeOn(e.open(), consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	e.quiet(e.h.Features.LapseAfter+moment, "new subscriber of the group", g.got)
	e.mustSend(message(topic, "new"))
	g.expect("new")
}

// testAck acknowledges while Subscribe runs and after it has returned, which must work for as long as the
// connection is open.
func testAck(e *env) {
	topic := e.name("t")
	b := e.open()
	g := e.subscribeOn(b, consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 30)
	e.mustSend(messages(topic, "k", 21)...)
	g.expect(texts(20)...)
	held := g.next()
	g.stop()
	ack(e.T, held)
	if err := b.Close(); err != nil {
		e.Errorf("Close() = %v, want nil", err)
	}
	e.successor(topic)
}

// testRedeliver closes the connection while it has three deliveries, one of which is acknowledged.
func testRedeliver(e *env) {
	topic := e.name("t")
	b := e.open()
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	g := e.subscribeOn(b, s, 10)
	e.mustSend(messages(topic, "k", 3)...)
	held := []arrival{g.next(), g.next(), g.next()}
	ack(e.T, held[1])
	g.lose(b)
	e.lapse()
	next := e.start(e.open().Subscriber(s), 10)
	want := []string{"1", "3"}
	if e.h.Features.Partitioned {
		want = texts(3)
	}
	var got []string
	for range want {
		a := next.nextWithin(e.h.Features.LapseAfter + patience)
		if !a.Redelivered() {
			e.Errorf("payload %q: Redelivered() = false, want true", a.text())
		}
		got = append(got, a.text())
		ack(e.T, a)
	}
	if e.h.Features.LapseAfter > 0 { // the server may have sent some again before it saw the connection end
		slices.Sort(got)
	}
	if !slices.Equal(got, want) {
		e.Errorf("redelivered: %q, want %q", got, want)
	}
	if err := held[0].Ack(e.context()); err == nil {
		e.Error("Ack() = nil on a closed connection, want an error")
	}
	e.mustSend(message(topic, "new"))
	next.expect("new")
}

// testRetryDelay counts what happens in a window of two seconds: nothing, then one delivery.
func testRetryDelay(e *env) {
	const delay = 2 * time.Second
	topic, g := e.one(10)
	m := message(topic, "1")
	m.Key, m.Headers = "k", map[string]string{"h": "v"}
	e.mustSend(m)
	first := g.next()
	start := time.Now()
	g.retry(first, delay)
	second := g.next()
	if d := second.at.Sub(start); d < delay {
		e.Errorf("redelivered %v after Retry, want not before %v", d, delay)
	}
	if !second.Redelivered() {
		e.Error("Redelivered() = false after Retry, want true")
	}
	e.same(second.message, &m)
	ack(e.T, second)
	never(e, moment, "after the redelivery was acknowledged", g.got)
	e.mustSend(message(topic, "2"))
	g.expect("2")
}

// testRetryFlow retries more messages than the prefetch: those that wait must not count, or nothing else
// would get through.
func testRetryFlow(e *env) {
	const delay, prefetch = 5 * time.Second, 2
	topic, g := e.one(prefetch)
	e.mustSend(messages(topic, "", 4)...)
	start := time.Now()
	for range 4 {
		g.retry(g.next(), delay)
	}
	e.mustSend(messages(topic, "", 50)...)
	before, others, retried := 0, 0, 0 // others in all, and before the first of the retried
	for others+retried < 54 {
		a := g.next()
		switch {
		case !a.Redelivered():
			others++
		case a.at.Sub(start) < delay:
			e.Errorf("redelivered after %v, want after %v", a.at.Sub(start), delay)
			fallthrough
		default:
			if retried++; retried == 1 {
				before = others
			}
		}
		ack(e.T, a)
	}
	if others != 50 || before <= prefetch {
		e.Errorf("%d other messages arrived, %d of them before those that were retried; want 50, and more than the %d that may be held", others, before, prefetch)
	}
}

func testRetryGroup(e *env) {
	topic, g := e.one(10)
	other := e.subscribe(consumer.Subscription{Group: e.name("other"), Topics: []string{topic}}, 10)
	e.mustSend(message(topic, "1"))
	g.retry(g.next(), 100*time.Millisecond)
	a := g.next()
	if a.text() != "1" || !a.Redelivered() {
		e.Errorf("payload %q, Redelivered() = %v, want the message redelivered", a.text(), a.Redelivered())
	}
	ack(e.T, a)
	e.mustSend(message(topic, "2"))
	other.expect("1", "2")
	g.expect("2")
}

func testRetryAtOnce(e *env) {
	topic, g := e.one(1)
	e.mustSend(message(topic, "1"))
	for i := range 5 {
		a := g.next()
		if a.Redelivered() != (i > 0) {
			e.Errorf("delivery %d: Redelivered() = %v", i+1, a.Redelivered())
		}
		g.retry(a, 0)
	}
	ack(e.T, g.next())
	e.mustSend(message(topic, "2"))
	g.expect("2")
}

// testExtend holds a message for longer than the broker waits for a settlement.
func testExtend(e *env) {
	topic, g := e.one(10)
	e.mustSend(message(topic, "1"))
	a := g.next()
	for left := e.h.Features.LapseAfter * 3 / 2; ; left -= contract.ExtendInterval {
		if err := a.Extend(e.context()); err != nil {
			e.Fatalf("Extend() = %v", err)
		}
		e.quiet(min(left, contract.ExtendInterval), "redelivered although extended", g.got)
		if left <= contract.ExtendInterval {
			break
		}
	}
	ack(e.T, a)
	e.mustSend(message(topic, "2"))
	g.expect("2")
}

// testPrefetch settles forty messages one by one and watches how many are unsettled.
func testPrefetch(e *env) {
	const prefetch, n = 5, 40
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	e.subscribe(s, 1).stop() // declares the group
	e.mustSend(messages(topic, "k", n)...)
	var unsettled atomic.Int64
	held, beyond := make(chan contract.Delivery, n), make(chan int64, n)
	e.startFunc(e.broker.Subscriber(s), prefetch, func(d contract.Delivery) {
		if u := unsettled.Add(1); u > prefetch {
			beyond <- u
		}
		held <- d
	})
	for i := range n {
		e.eventually("the prefetch to be used", func() bool { return len(held) >= min(prefetch, n-i) })
		if i == 0 {
			never(e, moment, "deliveries beyond the prefetch", beyond)
		}
		d := <-held
		unsettled.Add(-1)
		ack(e.T, d)
	}
	if len(beyond) > 0 {
		e.Errorf("%d deliveries were unsettled, the prefetch is %d", <-beyond, prefetch)
	}
}

// startFunc is start with a deliver function of the test's own.
func (e *env) startFunc(sub contract.Subscriber, prefetch int, deliver func(contract.Delivery)) {
	ctx, cancel := context.WithCancel(context.Background())
	g := &group{env: e, cancel: cancel, ended: make(chan error, 1)}
	go func() { g.ended <- sub.Subscribe(ctx, prefetch, withoutProbes(deliver)) }()
	e.Cleanup(g.stop)
}

// testPrefetchOfOne has a prefetch of one for four addresses, all of which get through.
func testPrefetchOfOne(e *env) {
	s := consumer.Subscription{
		Group:  e.name("g"),
		Topics: []string{e.name("a"), e.name("b"), e.name("c")},
		To:     e.name("d"),
	}
	g := e.subscribe(s, 1)
	var msgs []waybill.Message
	for i := range 40 {
		m := message("", fmt.Sprint(i))
		if i%4 < 3 {
			m.Topic = s.Topics[i%4]
		} else {
			m.To = s.To
		}
		msgs = append(msgs, m)
	}
	e.mustSend(msgs...)
	for range msgs {
		a := g.next()
		never(e, moment/30, "a second delivery while the first is held", g.got)
		ack(e.T, a)
	}
}
