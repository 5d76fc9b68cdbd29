package brokertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// testFanout publishes to a topic with two groups, and checks that a third group on another
// topic gets nothing.
func testFanout(e *env) {
	topic, other := e.name("t"), e.name("other")
	var groups []*group
	for _, name := range []string{"a", "b"} {
		groups = append(groups, e.subscribe(consumer.Subscription{Group: e.name(name), Topics: []string{topic}}, 10))
	}
	bystander := e.subscribe(consumer.Subscription{Group: e.name("c"), Topics: []string{other}}, 10)
	e.mustSend(messages(topic, "k", 20)...)
	for _, g := range groups {
		g.expect(texts(20)...)
	}
	e.mustSend(message(topic, "last"), message(other, "last"))
	for _, g := range append(groups, bystander) {
		g.expect("last")
	}
}

// testSentTo sends to a destination that one of two groups on a topic of the same name
// receives.
func testSentTo(e *env) {
	address := e.name("x")
	receiver := e.subscribe(consumer.Subscription{Group: e.name("a"), To: address}, 10)
	other := e.subscribe(consumer.Subscription{Group: e.name("b"), Topics: []string{address}}, 10)
	for i := range 20 {
		m := message("", fmt.Sprint(i+1))
		m.To, m.Type = address, "command"
		e.mustSend(m)
	}
	for i := range 20 {
		a := receiver.next()
		if a.text() != fmt.Sprint(i+1) || a.message.To != address || a.message.Topic != "" {
			e.Fatalf("payload %q, To %q, Topic %q, want %d, sent to %q", a.text(), a.message.To, a.message.Topic, i+1, address)
		}
		ack(e.T, a)
	}
	last := message("", "last")
	last.To = address
	e.mustSend(last, message(address, "last"))
	receiver.expect("last")
	other.expect("last")
}

func testSeveralAddresses(e *env) {
	a, b, to := e.name("a"), e.name("b"), e.name("to")
	g := e.subscribe(consumer.Subscription{Group: e.name("g"), Topics: []string{a, b}, To: to}, 10)
	other := e.subscribe(consumer.Subscription{Group: e.name("h"), Topics: []string{b}}, 10)
	sent := message("", "sent")
	sent.To = to
	e.mustSend(message(a, "a"), message(b, "b"), sent)
	seen := make(map[string]string)
	for range 3 {
		d := g.next()
		seen[d.text()] = d.message.Address()
		ack(e.T, d)
	}
	if seen["a"] != a || seen["b"] != b || seen["sent"] != to {
		e.Errorf("payloads and addresses %v, want one message from each address", seen)
	}
	other.expect("b")
}

// testShare has two subscribers of one group on separate connections. With a prefetch of one,
// both must get one of two messages; then each message goes to one of them.
func testShare(e *env) {
	const n = 200
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	groups := [2]*group{e.subscribe(s, 1), e.subscribeOn(e.open(), s, 1)}
	e.mustSend(message(topic, "first"), message(topic, "second"))
	held := []arrival{groups[0].next(), groups[1].next()}
	release := e.keep(held)
	defer release()
	e.shareOut(topic, groups, n)
	release()
	for _, a := range held {
		ack(e.T, a)
	}
}

// keep extends what is held, as a consumer does, until the function that it returns is called.
func (e *env) keep(held []arrival) (release func()) {
	ctx, cancel := context.WithCancel(e.context())
	var extending sync.WaitGroup
	extending.Go(func() {
		for tick := time.NewTicker(contract.ExtendInterval); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			for _, a := range held {
				if err := a.Extend(ctx); err != nil && ctx.Err() == nil {
					e.Errorf("Extend() = %v", err)
				}
			}
		}
	})
	return func() {
		cancel()
		extending.Wait()
	}
}

// shareOut adds two free subscribers to groups, which hold all they may, and counts n
// messages.
func (e *env) shareOut(topic string, busy [2]*group, n int) {
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	groups := [2]*group{e.start(e.broker.Subscriber(s), 5), e.start(e.open().Subscriber(s), 5)}
	e.mustSend(messages(topic, "", n)...)
	seen := make(map[string]int)
	for range n {
		var a arrival
		select {
		case a = <-groups[0].got:
		case a = <-groups[1].got:
		case <-e.context().Done():
			e.Fatalf("%d of %d messages arrived", len(seen), n)
		}
		if seen[a.text()]++; seen[a.text()] > 1 {
			e.Errorf("message %s was delivered %d times", a.text(), seen[a.text()])
		}
		ack(e.T, a)
	}
	never(e, moment, "a subscriber beyond its prefetch", busy[0].got)
}

// testShareNothing has two subscribers on separate connections, of which one gets everything:
// each message arrives once, in order, although the group's members change meanwhile.
func testShareNothing(e *env) {
	const n = 200
	topic := e.name("t")
	s := consumer.Subscription{Group: e.name("g"), Topics: []string{topic}}
	first := e.subscribe(s, 5)
	second := e.start(e.open().Subscriber(s), 5)
	for i, m := range messages(topic, "k", n) {
		e.mustSend(m)
		var a arrival
		select {
		case a = <-first.got:
		case a = <-second.got:
		case <-e.context().Done():
			e.Fatalf("message %d has not arrived", i+1)
		}
		if a.text() != string(m.Payload) {
			e.Fatalf("payload %q, want %q", a.text(), m.Payload)
		}
		ack(e.T, a)
	}
}

// testNames uses addresses and groups with every character that Validate and most brokers
// allow. Groups whose names differ in one character only must not share their messages.
func testNames(e *env) {
	dotted, plain := e.name("a.b-c_d.E9"), e.name("x")
	var groups []*group
	for _, s := range []consumer.Subscription{
		{Group: e.name("Group with spaces, dots. *>/\\ ü"), Topics: []string{plain}},
		{Group: e.name("g."), Topics: []string{plain}},
		{Group: e.name("g_"), Topics: []string{plain}},
		{Group: e.name("G_"), Topics: []string{plain}},
		{Group: e.name("g"), Topics: []string{dotted}},
		{Group: e.name("h"), To: dotted},
	} {
		groups = append(groups, e.subscribe(s, 10))
	}
	sent := message("", "x")
	sent.To = dotted
	e.mustSend(message(plain, "x"), message(dotted, "x"), sent)
	for _, g := range groups {
		g.expect("x")
	}
}

func testInvalidSubscription(e *env) {
	sub := e.broker.Subscriber(consumer.Subscription{Topics: []string{e.name("t")}})
	err := sub.Subscribe(e.context(), 10, func(contract.Delivery) {})
	if !waybill.IsPermanent(err) {
		e.Errorf("Subscribe() = %v of kind %v, want the error of Validate", err, waybill.KindOf(err))
	}
}

func testPing(e *env) {
	b := e.open()
	if err := b.Ping(e.context()); err != nil {
		e.Errorf("Ping() = %v, want nil", err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			e.Errorf("Close() = %v, want nil", err)
		}
	}
	if err := b.Ping(e.context()); !waybill.IsUnavailable(err) {
		e.Errorf("Ping() = %v after Close, want unavailable", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.broker.Ping(ctx); err == nil {
		e.Error("Ping() = nil with a cancelled context, want an error")
	}
}
