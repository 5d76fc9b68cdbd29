package brokertest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// Faults make the network between a connection and its server fail.
type Faults interface {
	Cut()                    // ends open connections; new ones can be made at once
	Refuse(refuse bool)      // whether new connections are refused
	Stall(stall bool)        // whether connections stay open while nothing passes
	StallReplies(stall bool) // the same for what the server sends only
	CutOn(text string)       // ends each connection that text is sent on, before it arrives; "" ends none
}

// faulty is a connection that can fail, and a group that receives over one that cannot.
type faulty struct {
	*env
	broker broker.Broker
	faults Faults
	topic  string
	group  *group
}

// newFaulty returns a connection over which a message has been published.
func newFaulty(e *env) *faulty {
	topic, g := e.one(100)
	faults, open := e.h.Faulty(e.T)
	f := &faulty{env: e, broker: open(), faults: faults, topic: topic, group: g}
	f.restoreAfter()
	f.resend(messages(topic, "k", 1))
	return f
}

// restoreAfter lets the network work again when the test ends, and closes the connection.
func (f *faulty) restoreAfter() {
	f.Cleanup(func() {
		f.faults.Refuse(false)
		f.faults.Stall(false)
		f.faults.CutOn("")
		f.broker.Close()
	})
}

// send publishes over the connection that can fail.
func (f *faulty) send(within time.Duration, msgs []waybill.Message) (wait func() []error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	f.Cleanup(cancel)
	out := outgoing(msgs)
	for i := range out {
		out[i].Resent = true
	}
	return f.broker.Publisher().Send(ctx, out)
}

// resend publishes msgs until each is accepted. No other result may blame a message.
func (f *faulty) resend(msgs []waybill.Message) {
	f.Helper()
	f.eventually("the messages to be accepted", func() bool { return f.unavailable(f.send(patience, msgs)()) == 0 })
	f.arrive(msgs)
}

// unavailable counts the results that are unavailable, and fails unless the others are accepted.
func (f *faulty) unavailable(results []error) int {
	f.Helper()
	n := 0
	for i, err := range results {
		switch {
		case waybill.IsUnavailable(err):
			n++
		case err != nil:
			f.Fatalf("message %d: %v of kind %v, want it accepted or unavailable", i+1, err, waybill.KindOf(err))
		}
	}
	return n
}

// arrive waits until each of msgs has arrived. Those whose outcome was unknown may do so twice.
func (f *faulty) arrive(msgs []waybill.Message) {
	f.Helper()
	missing := make(map[string]bool)
	for i := range msgs {
		missing[msgs[i].ID] = true
	}
	for len(missing) > 0 {
		a := f.group.next()
		delete(missing, a.message.ID)
		ack(f.T, a)
	}
}

// testCutBeforeConfirm: no message of a batch whose confirms are lost counts as published, and
// none waits for its deadline.
func testCutBeforeConfirm(e *env) {
	f := newFaulty(e)
	msgs := messages(f.topic, "k", 20)
	f.faults.StallReplies(true)
	wait := f.send(patience, msgs)
	f.faults.Cut()
	f.faults.StallReplies(false)
	results := wait()
	if n := f.unavailable(results); n != len(msgs) {
		e.Errorf("%d of %d messages without a confirm are unavailable, want all", n, len(msgs))
	}
	e.beforeDeadline(results)
	f.resend(msgs)
}

// beforeDeadline fails the test if a result was caused by the publisher's deadline.
func (e *env) beforeDeadline(results []error) {
	e.Helper()
	for i, err := range results {
		if errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("message %d: %v, want it known before the deadline", i+1, err)
		}
	}
}

// testHalfOpen: a connection over which nothing passes ends by the deadline of the callers.
func testHalfOpen(e *env) {
	const within = 500 * time.Millisecond
	f := newFaulty(e)
	msgs := messages(f.topic, "k", 20)
	f.faults.Stall(true)
	if n := f.unavailable(f.send(within, msgs)()); n != len(msgs) {
		e.Errorf("%d of %d messages are unavailable, want all", n, len(msgs))
	}
	f.faults.Stall(false)
	f.resend(msgs)
}

// testSlowConfirms: no result is known before the confirms arrive, and then all are.
func testSlowConfirms(e *env) {
	f := newFaulty(e)
	msgs := messages(f.topic, "k", 20)
	f.faults.StallReplies(true)
	wait := f.send(patience, msgs)
	known := make(chan []error, 1)
	go func() { known <- wait() }()
	never(e, moment, "results before the confirms", known)
	f.faults.StallReplies(false)
	if n := f.unavailable(<-known); n != 0 {
		e.Errorf("%d messages are unavailable, want all accepted", n)
	}
	f.arrive(msgs)
}

// testServerAway: while the server refuses connections, every publish fails as unavailable at
// once; when it is back, so is the publisher.
func testServerAway(e *env) {
	f := newFaulty(e)
	f.faults.Refuse(true)
	f.faults.Cut()
	msgs := messages(f.topic, "k", 20)
	e.eventually("the cut to be noticed", func() bool {
		results := f.send(patience, msgs)()
		e.beforeDeadline(results)
		return f.unavailable(results) == len(msgs)
	})
	if err := f.broker.Ping(e.context()); !waybill.IsUnavailable(err) {
		e.Errorf("Ping() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	f.faults.Refuse(false)
	f.resend(msgs)
}

// testOpenedAway: a broker that is opened while its server refuses connections reports unavailable
// from publishing and receiving. Both work once the server is back.
func testOpenedAway(e *env) {
	topic, g := e.one(100)
	faults, open := e.h.Faulty(e.T)
	faults.Refuse(true)
	f := &faulty{env: e, broker: open(), faults: faults, topic: topic, group: g}
	f.restoreAfter()
	if err := f.broker.Ping(e.context()); !waybill.IsUnavailable(err) {
		e.Errorf("Ping() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	msgs := messages(topic, "k", 3)
	if n := f.unavailable(f.send(patience, msgs)()); n != len(msgs) {
		e.Errorf("%d of %d messages are unavailable, want all", n, len(msgs))
	}
	sub := consumer.Subscription{Group: e.name("h"), Topics: []string{topic}}
	err := f.broker.Subscriber(sub).Subscribe(e.context(), 10, func(contract.Delivery) {})
	if !waybill.IsUnavailable(err) {
		e.Errorf("Subscribe() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	faults.Refuse(false)
	f.resend(msgs)
	e.subscribeOn(f.broker, sub, 10).stop()
}

// testConsumerCut: messages that a consumer held when its connection was cut are redelivered to
// it, over a new connection that it makes by itself.
func testConsumerCut(e *env) {
	faults, open := e.h.Faulty(e.T)
	b := open()
	e.Cleanup(func() { b.Close() })
	topic := e.name("t")
	g := e.subscribeOn(b, consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}, 10)
	e.mustSend(messages(topic, "k", 5)...)
	for _, want := range texts(5) {
		if a := g.next(); a.text() != want {
			e.Errorf("payload %q, want %q", a.text(), want)
		}
	}
	faults.Cut()
	missing := make(map[string]bool)
	for _, text := range texts(5) {
		missing[text] = true
	}
	for len(missing) > 0 {
		a := g.nextWithin(e.h.Features.LapseAfter + patience)
		if !a.Redelivered() {
			e.Errorf("payload %q: Redelivered() = false, want true", a.text())
		}
		delete(missing, a.text())
		ack(e.T, a)
	}
	e.mustSend(message(topic, "new"))
	if a := g.next(); a.text() != "new" {
		e.Errorf("payload %q, want new", a.text())
	}
}
