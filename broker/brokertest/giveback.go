package brokertest

import (
	"context"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// testStopBacklog stops a subscription whose deliver is blocked while more messages have arrived.
// Those must go to the next subscriber although the connection is still open, and although
// delivered messages are still being handled.
func testStopBacklog(e *env) {
	e.patiently()
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	e.subscribe(s, 1).stop() // declares the group
	e.mustSend(messages(topic, "k", 5)...)
	first, free := make(chan contract.Delivery, 5), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- e.broker.Subscriber(s).Subscribe(ctx, 5, withoutProbes(func(d contract.Delivery) {
			first <- d
			<-free
		}))
	}()
	held := <-first
	cancel()
	close(free)
	if err := <-ended; err != nil {
		e.Errorf("Subscribe() = %v after its context was cancelled, want nil", err)
	}
	if len(first) > 0 {
		e.Error("deliver was called after the context was cancelled")
	}
	if e.h.Features.Partitioned { // what is behind it cannot be received separately
		ack(e.T, held)
	}
	next := e.start(e.open().Subscriber(s), 10)
	for _, want := range texts(5)[1:] {
		a := next.next()
		if a.text() != want {
			e.Errorf("payload %q, want %q", a.text(), want)
		}
		ack(e.T, a)
	}
	if !e.h.Features.Partitioned {
		ack(e.T, held)
	}
	never(e, moment, "a sixth delivery", next.got)
}

// testStopInFlow stops subscriptions one after the other while messages stream in. Messages that
// one has not started to handle go to the next at once and in order, so that all are handled in
// order, even where the next has room for fewer, and stops while others still wait to be
// redelivered.
func testStopInFlow(e *env) {
	e.patiently()
	const each = 25
	prefetches := []int{50, 50, 100, 5, 50, 1, 20, 50}
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	e.subscribe(s, 1).stop() // declares the group
	e.mustSend(messages(topic, "k", len(prefetches)*each)...)
	want := texts(len(prefetches) * each)
	for _, prefetch := range prefetches {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		handled := 0
		err := e.broker.Subscriber(s).Subscribe(ctx, prefetch, withoutProbes(func(d contract.Delivery) {
			if m, _ := d.Message(); string(m.Payload) != want[0] {
				e.Errorf("payload %q, want %q", m.Payload, want[0])
			}
			ack(e.T, d)
			want = want[1:]
			if handled++; handled == each {
				cancel()
			}
		}))
		cancel()
		if err != nil || handled < each {
			e.Fatalf("%d messages arrived, and Subscribe() = %v; want %d, and nil", handled, err, each)
		}
	}
}
