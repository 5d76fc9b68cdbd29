package brokertest

import (
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// testLag counts what waits for a group that holds some messages and is not given the others,
// over a connection that does not receive. A subscriber that cannot report its lag is
// skipped.
func testLag(e *env) {
	const prefetch, n = 3, 12
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	watcher, ok := e.open().Subscriber(s).(contract.Lagger)
	if !ok {
		return
	}
	lag := func() int64 {
		e.Helper()
		l, err := watcher.Lag(e.context())
		if err != nil {
			e.Fatalf("Lag() = %v", err)
		}
		return l.Messages
	}
	if got := lag(); got != 0 {
		e.Errorf("%d messages wait for a group that nobody knows", got)
	}
	g := e.subscribe(s, prefetch)
	e.mustSend(messages(topic, "k", n)...)
	held := make([]arrival, prefetch)
	for i := range held {
		held[i] = g.next()
	}
	want := int64(n - prefetch)
	if f := e.h.Features; f.Partitioned || f.CountsHeld {
		want = n
	}
	e.eventually("the lag to be what is not held", func() bool {
		n := lag()
		return n == want || n > want && e.h.Features.LagHasMarks
	})
	for _, d := range held {
		ack(e.T, d)
	}
	for range n - prefetch {
		ack(e.T, g.next())
	}
	e.eventually("no lag to be left", func() bool { return lag() == 0 })
}
