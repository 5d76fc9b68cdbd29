package brokertest

import (
	"context"
	"runtime"
	"strings"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// testSubscribeAgain runs one Subscriber several times, the last time with a context that
// is already done.
func testSubscribeAgain(e *env) {
	topic := e.name("t")
	sub := e.broker.Subscriber(consumer.Subscription{Group: e.name("g"), Topics: []string{topic}})
	for i := range 3 {
		g := e.start(sub, 10)
		if i == 0 {
			g.awaitProbe(message(topic, ""))
		}
		e.mustSend(message(topic, "x"))
		if a := g.next(); a.text() != "x" {
			e.Errorf("payload %q, want x", a.text())
		} else {
			ack(e.T, a)
		}
		g.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := sub.Subscribe(ctx, 10, func(contract.Delivery) {}); err != nil {
		e.Errorf("Subscribe() = %v with a cancelled context, want nil", err)
	}
}

// testGoroutines compares the adapter's goroutines before, during and after. The first
// subscription is not counted: a client library may start helpers that stay with its connection.
// Everything published, including probes, goes over the connection that is closed at the end.
func testGoroutines(e *env) {
	before := len(e.goroutines())
	on, b := *e, e.open()
	on.broker = b
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{e.name("t"), e.name("u")}, To: e.name("v")}
	on.subscribe(s, 10).stop()
	connected := len(e.goroutines())
	for range 5 {
		g := on.subscribe(s, 10)
		on.mustSend(message(s.Topics[0], "x"))
		g.next() // stays unsettled
		g.stop()
	}
	e.settled("after Subscribe returned", connected)
	if err := b.Close(); err != nil {
		e.Errorf("Close() = %v", err)
	}
	e.settled("after Close", before)
}

// settled waits until no more than want goroutines of the adapter are left.
func (e *env) settled(when string, want int) {
	e.Helper()
	e.eventually("goroutines to end "+when, func() bool { return len(e.goroutines()) <= want })
}

// goroutines returns the stacks of the goroutines that belong to an adapter.
func (e *env) goroutines() []string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var list []string
	for _, stack := range strings.Split(string(buf), "\n\n") {
		for _, mark := range append([]string{"waybill/broker/"}, e.h.Goroutines...) {
			if strings.Contains(stack, mark) {
				list = append(list, stack)
				break
			}
		}
	}
	return list
}
