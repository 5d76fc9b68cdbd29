package brokertest

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

// openReplies opens a reply destination on a connection.
func (e *env) openReplies(b broker.Broker) (address string, replies contract.Subscriber) {
	e.Helper()
	opener, ok := b.(request.ReplyOpener)
	if !ok {
		e.Fatalf("%T is no request.ReplyOpener", b)
	}
	address, replies, err := opener.OpenReplies(e.context())
	if err != nil {
		e.Fatalf("OpenReplies() = %v", err)
	}
	if !request.IsAddress(address) {
		e.Fatalf("OpenReplies() = %q, want an address from NewAddress", address)
	}
	return address, replies
}

// replyTo returns a reply.
func replyTo(address, text string) waybill.Message {
	m := waybill.Message{To: address, Type: "reply", CausationID: "the request", Source: "brokertest", Payload: []byte(text)}
	m.Complete()
	return m
}

// testReplies sends to two reply destinations: from the moment when they are opened, each gets its
// own replies.
func testReplies(e *env) {
	first, one := e.openReplies(e.broker)
	second, other := e.openReplies(e.open())
	if first == second {
		e.Fatalf("both destinations have the address %q", first)
	}
	for i := range 20 {
		e.mustSend(replyTo(first, fmt.Sprint("to the first ", i+1)), replyTo(second, fmt.Sprint("to the second ", i+1)))
	}
	for name, replies := range map[string]contract.Subscriber{"first": one, "second": other} {
		g := e.start(replies, 5)
		for i := range 20 {
			a := g.next()
			if want := fmt.Sprint("to the ", name, " ", i+1); a.err != nil || a.text() != want || a.message.CausationID != "the request" {
				e.Fatalf("reply %q, causation id %q, error %v; want %q with that of the request", a.text(), a.message.CausationID, a.err, want)
			}
			ack(e.T, a)
		}
	}
}

// testRepliesGone sends to a reply destination that was removed, and to one that never existed:
// nobody waits for these replies, and that is not an error.
func testRepliesGone(e *env) {
	address, replies := e.openReplies(e.broker)
	g := e.start(replies, 5)
	e.mustSend(replyTo(address, "in time"))
	g.expect("in time")
	g.stop()
	e.mustSend(replyTo(address, "late"), replyTo(request.NewAddress(), "lost"))
	again := e.start(e.broker.Subscriber(consumer.Subscription{Group: e.name("g"), To: address}), 5)
	never(e, moment, "reply at a destination that was removed", again.got)
}

// testRepliesUnavailable opens a reply destination on a closed connection.
func testRepliesUnavailable(e *env) {
	b := e.open()
	if err := b.Close(); err != nil {
		e.Fatalf("Close() = %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, _, err := b.(request.ReplyOpener).OpenReplies(ctx); !waybill.IsUnavailable(err) {
		e.Errorf("OpenReplies() on a closed connection = %v, want an unavailable error", err)
	}
}

// testRepliesCut cuts the connection of a reply destination. What is sent to it meanwhile arrives
// when it is back.
func testRepliesCut(e *env) {
	faults, open := e.h.Faulty(e.T)
	b := open()
	e.Cleanup(func() { b.Close() })
	address, replies := e.openReplies(b)
	g := e.start(replies, 5)
	e.mustSend(replyTo(address, "before"))
	g.expect("before")
	faults.Refuse(true)
	faults.Cut()
	e.mustSend(replyTo(address, "meanwhile"))
	faults.Refuse(false)
	for {
		a := g.next()
		ack(e.T, a)
		if a.text() == "meanwhile" {
			return
		}
	}
}
