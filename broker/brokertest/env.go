package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
)

const (
	// patience ends a test that hangs: no wait is longer, and each ends as soon as its condition
	// holds. What must be prompt must happen before something else: before the broker stops waiting
	// for a settlement, or before the publisher's deadline.
	patience = 5 * time.Minute

	// moment is how long a test watches that something does not happen.
	moment = 300 * time.Millisecond
)

// env is one test's view of the broker: a connection, and names that no other test has.
type env struct {
	*testing.T
	h      Harness
	id     string
	broker broker.Broker

	structured bool // the content mode in which messages are sent
}

func newEnv(t *testing.T, h Harness) *env {
	e := &env{T: t, h: h, id: waybill.NewID()}
	e.broker = e.open()
	return e
}

// open returns one more connection, closed when the test ends.
func (e *env) open() broker.Broker {
	e.Helper()
	b := e.h.Open(e.T)
	e.Cleanup(func() { b.Close() })
	return b
}

// name returns a name that only this test uses.
func (e *env) name(base string) string { return base + "-" + e.id }

// patiently continues the test with a broker that waits for a settlement for longer than the test
// does for anything: whatever is redelivered has been returned.
func (e *env) patiently() {
	e.Helper()
	if e.h.Patient != nil {
		e.h.Open = e.h.Patient
		e.broker = e.open()
	}
}

// unroutable returns a topic that the broker must refuse.
func (e *env) unroutable() string {
	if e.h.Unroutable != "" {
		return e.h.Unroutable
	}
	return e.name("nobody")
}

// context returns a context with the deadline that a relay would give.
func (e *env) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	e.Cleanup(cancel)
	return ctx
}

// send publishes msgs in one batch, each as its first attempt, never requeued.
func (e *env) send(msgs ...waybill.Message) []error {
	e.Helper()
	results := e.broker.Publisher().Send(e.context(), e.outgoing(msgs))()
	if len(results) != len(msgs) {
		e.Fatalf("wait() returned %d results for %d messages", len(results), len(msgs))
	}
	return results
}

// mustSend is send for messages that the broker must accept.
func (e *env) mustSend(msgs ...waybill.Message) {
	e.Helper()
	if e.h.Features.Synchronous {
		e.keepSending(msgs)
		return
	}
	for i, err := range e.send(msgs...) {
		if err != nil {
			e.Fatalf("message %d of %d: %v, want it accepted", i+1, len(msgs), err)
		}
	}
}

// outgoing returns msgs as outgoing messages in the content mode of the test.
func (e *env) outgoing(msgs []waybill.Message) []contract.Outgoing {
	out := outgoing(msgs)
	for i := range out {
		out[i].Structured = e.structured
	}
	return out
}

func outgoing(msgs []waybill.Message) []contract.Outgoing {
	out := make([]contract.Outgoing, len(msgs))
	for i := range msgs {
		out[i] = contract.Outgoing{Message: &msgs[i], DedupID: msgs[i].ID}
	}
	return out
}

// message returns a plain message to be published to topic.
func message(topic, text string) waybill.Message {
	m := waybill.Message{Topic: topic, Source: "brokertest", Payload: []byte(text)}
	m.Complete()
	return m
}

// messages returns n messages of one key; their payloads are "1", "2" and so on.
func messages(topic, key string, n int) []waybill.Message {
	msgs := make([]waybill.Message, n)
	for i := range msgs {
		msgs[i] = message(topic, fmt.Sprint(i+1))
		msgs[i].Key = key
	}
	return msgs
}

// texts returns the payloads "1" to "n".
func texts(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i + 1)
	}
	return list
}

// lapse makes unsettled deliveries time out at the broker, where a test need not wait for it.
func (e *env) lapse() {
	if e.h.Elapse != nil {
		e.h.Elapse(e.T, e.h.Features.LapseAfter)
	}
}

// quiet fails the test if something arrives before d has passed for the broker.
func (e *env) quiet(d time.Duration, what string, got <-chan arrival) {
	e.Helper()
	if e.h.Elapse != nil {
		e.h.Elapse(e.T, d)
		d = 0
	}
	never(e, max(d, moment), what, got)
}

// eventually fails the test if done does not return true in time.
func (e *env) eventually(what string, done func() bool) {
	e.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			e.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// never fails the test if an unwanted value arrives within d.
func never[T any](e *env, d time.Duration, what string, unwanted <-chan T) {
	e.Helper()
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	select {
	case v, ok := <-unwanted:
		if ok {
			e.Fatalf("%s: got %v", what, v)
		}
	case <-deadline.C:
	}
}
