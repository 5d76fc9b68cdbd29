package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

func natsMessages(topic string, from, to int) []waybill.Message {
	var msgs []waybill.Message
	for i := from; i <= to; i++ {
		m := waybill.Message{Topic: topic, Source: "test", Payload: fmt.Append(nil, i)}
		m.Complete()
		msgs = append(msgs, m)
	}
	return msgs
}

// natsSend publishes msgs and returns the function that waits for their results.
func natsSend(t *testing.T, b *natsbroker.Broker, within time.Duration, resent bool, msgs []waybill.Message) func() []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	var out []contract.Outgoing
	for i := range msgs {
		out = append(out, contract.Outgoing{Message: &msgs[i], DedupID: msgs[i].ID, Resent: resent})
	}
	return b.Publisher().Send(ctx, out)
}

func natsMustSend(t *testing.T, b *natsbroker.Broker, msgs []waybill.Message) {
	t.Helper()
	if err := errors.Join(natsSend(t, b, patience, false, msgs)()...); err != nil {
		t.Fatal(err)
	}
}

// natsSubscribe runs a subscription and returns its deliveries and the result of Subscribe.
func natsSubscribe(t *testing.T, b *natsbroker.Broker, s consumer.Subscription) (<-chan contract.Delivery, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	got, ended := make(chan contract.Delivery, 1000), make(chan error, 1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ended <- b.Subscriber(s).Subscribe(ctx, 10, func(d contract.Delivery) { got <- d })
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	return got, ended
}

func natsNext(t *testing.T, got <-chan contract.Delivery, within time.Duration) (string, contract.Delivery) {
	t.Helper()
	select {
	case d := <-got:
		m, err := d.Message()
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Payload), d
	case <-time.After(within):
		t.Fatalf("no message within %v", within)
	}
	panic("unreachable")
}

// natsExpect takes and acknowledges deliveries until each of want has arrived.
func natsExpect(t *testing.T, got <-chan contract.Delivery, want ...string) {
	t.Helper()
	seen := make(map[string]bool)
	for len(seen) < len(want) {
		text, d := natsNext(t, got, 60*time.Second)
		if !slices.Contains(want, text) {
			t.Fatalf("payload %q, want one of %q", text, want)
		}
		seen[text] = true
		if err := d.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func natsWantAll(t *testing.T, results []error, n int, what string, is func(error) bool) {
	t.Helper()
	if len(results) != n {
		t.Fatalf("%d results, want %d", len(results), n)
	}
	for i, err := range results {
		if !is(err) {
			t.Errorf("message %d: %v of kind %v, want %s", i, err, waybill.KindOf(err), what)
		}
	}
}

// TestNATSBroker_ServerKilled kills the server while it holds a batch unread. Publisher and
// subscriber go on with the server that takes its place.
func TestNATSBroker_ServerKilled(t *testing.T) {
	t.Parallel()
	child := newNATSChild(t)
	child.start()
	b := natsOpen(t, natsConfig(t, child.url()))
	got, ended := natsSubscribe(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	natsMustSend(t, b, natsMessages("t", 1, 1))
	natsExpect(t, got, "1")

	child.stop() // so that no confirmation can come
	batch := natsMessages("t", 2, 51)
	wait := natsSend(t, b, patience, false, batch)
	child.kill()
	natsWantAll(t, wait(), len(batch), "unavailable, connection lost", func(err error) bool {
		return waybill.IsUnavailable(err) && errors.Is(err, contract.ErrConnectionLost)
	})
	natsWantAll(t, natsSend(t, b, patience, true, batch)(), len(batch), "unavailable, before the deadline", func(err error) bool {
		return waybill.IsUnavailable(err) && !errors.Is(err, context.DeadlineExceeded)
	})
	if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ping() = %v, want unavailable", err)
	}

	child.start()
	natsResend(t, b, batch)
	for seen := make(map[string]bool); len(seen) < len(batch); {
		text, d := natsNext(t, got, 60*time.Second)
		if text != "1" { // its acknowledgement may have been lost with the server
			seen[text] = true
		}
		if err := d.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("Subscribe() = %v", err)
	default:
	}
}

// natsResend repeats a batch until it is accepted.
func natsResend(t *testing.T, b *natsbroker.Broker, batch []waybill.Message) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		err := errors.Join(natsSend(t, b, 10*time.Second, true, batch)()...)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("a minute after the restart: %v", err)
		}
	}
}

// TestNATSBroker_ServerSilent stops the server, which neither answers nor closes anything.
func TestNATSBroker_ServerSilent(t *testing.T) {
	t.Parallel()
	child := newNATSChild(t)
	child.start()
	b := natsOpen(t, natsConfig(t, child.url()))
	child.stop()
	batch := natsMessages("t", 1, 10)
	start := time.Now()
	results := natsSend(t, b, time.Second, false, batch)()
	natsWantAll(t, results, len(batch), "unavailable, deadline exceeded", func(err error) bool {
		return waybill.IsUnavailable(err) && errors.Is(err, context.DeadlineExceeded)
	})
	if d := time.Since(start); d < time.Second {
		t.Errorf("wait() returned after %v, want at the deadline of 1s", d)
	}
	child.resume()
	natsResend(t, b, batch)
	got, _ := natsSubscribe(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	natsExpect(t, got, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
}

// natsUntilPing waits for a server that comes back.
func natsUntilPing(t *testing.T, b *natsbroker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for err := b.Ping(ctx); err != nil; err = b.Ping(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("Ping() = %v to the end", err)
		}
	}
}

// TestNATSBroker_SubscribedWhileDown starts a subscription without a server.
func TestNATSBroker_SubscribedWhileDown(t *testing.T) {
	t.Parallel()
	child := newNATSChild(t)
	child.start()
	b := natsOpen(t, natsConfig(t, child.url()))
	natsMustSend(t, b, natsMessages("t", 1, 1))
	child.kill()
	sub := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	if err := b.Subscriber(sub).Subscribe(t.Context(), 10, func(contract.Delivery) {}); !waybill.IsUnavailable(err) {
		t.Errorf("Subscribe() = %v without a server, want unavailable", err)
	}
	child.start()
	natsUntilPing(t, b)
	got, _ := natsSubscribe(t, b, sub)
	natsExpect(t, got, "1")
}

// TestNATSBroker_StreamDeleted removes the stream under a publisher and a subscriber, where somebody
// else declares: that is an outage.
func TestNATSBroker_StreamDeleted(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	natsOpen(t, cfg)
	cfg.DeclareNothing = true
	b := natsOpen(t, cfg)
	natsMustSend(t, b, natsMessages("t", 1, 1))
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	if err := js.DeleteStream(t.Context(), cfg.Stream); err != nil {
		t.Fatal(err)
	}
	results := natsSend(t, b, patience, false, natsMessages("t", 2, 4))()
	natsWantAll(t, results, 3, "unavailable", waybill.IsUnavailable)
	if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ping() = %v, want unavailable", err)
	}
	_, ended := natsSubscribe(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	select {
	case err := <-ended:
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("Subscribe() = %v, want that the stream is missing", err)
		}
	case <-time.After(patience):
		t.Error("Subscribe() goes on without a stream")
	}
}

// TestNATSBroker_StreamIsReplaced removes the stream under a publisher that declares: what did not
// find it is to be sent again, and then it is there.
func TestNATSBroker_StreamIsReplaced(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	b := natsOpen(t, cfg)
	natsMustSend(t, b, natsMessages("t", 1, 1))
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	if err := js.DeleteStream(t.Context(), cfg.Stream); err != nil {
		t.Fatal(err)
	}
	natsWantAll(t, natsSend(t, b, patience, false, natsMessages("t", 2, 4))(), 3, "unavailable", waybill.IsUnavailable)
	natsMustSend(t, b, natsMessages("t", 2, 4))
	got, _ := natsSubscribe(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	natsExpect(t, got, "2", "3", "4")
}

// TestNATSBroker_StreamFull fills a stream with a limit; nothing that it holds may go.
func TestNATSBroker_StreamFull(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	cfg.MaxBytes = 64 << 10
	b := natsOpen(t, cfg)
	big := natsMessages("t", 1, 3)
	for i := range big {
		big[i].Payload = append([]byte(strings.Repeat(" ", 30<<10)), big[i].Payload...)
	}
	results := natsSend(t, b, patience, false, big)()
	if results[0] != nil || results[1] != nil || !waybill.IsUnavailable(results[2]) {
		t.Errorf("results %v, want two messages accepted and one unavailable", results)
	}
	got, _ := natsSubscribe(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	for _, want := range []string{"1", "2"} {
		if text, _ := natsNext(t, got, patience); strings.TrimSpace(text) != want {
			t.Errorf("payload %q, want %q", strings.TrimSpace(text), want)
		}
	}
}

// TestNATSBroker_ConsumerDeleted removes the durable consumer under its subscriber, which
// makes a new one. That starts from the beginning: more is delivered, nothing is lost.
func TestNATSBroker_ConsumerDeleted(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	b := natsOpen(t, cfg)
	got, _ := natsSubscribe(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	natsMustSend(t, b, natsMessages("t", 1, 1))
	natsExpect(t, got, "1")
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	names := natsConsumers(t, js, cfg.Stream)
	if len(names) != 1 {
		t.Fatalf("consumers %v, want one", names)
	}
	natsDeleteConsumer(t, js, cfg.Stream, names[0])
	natsMustSend(t, b, natsMessages("t", 2, 2))
	natsExpect(t, got, "1", "2")
}

// natsDeleteConsumer removes a durable consumer. The server answers 500 if it could not remove
// the folder to which it was just writing; the consumer is gone anyway.
func natsDeleteConsumer(t *testing.T, js jetstream.JetStream, stream, name string) {
	t.Helper()
	err := js.DeleteConsumer(t.Context(), stream, name)
	if refused := (*jetstream.APIError)(nil); errors.As(err, &refused) && refused.Code == 500 {
		t.Log(err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
}

func natsConsumers(t *testing.T, js jetstream.JetStream, stream string) []string {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	infos := make(map[string]bool)
	list := s.ConsumerNames(t.Context())
	for name := range list.Name() {
		infos[name] = true
	}
	if list.Err() != nil {
		t.Fatal(list.Err())
	}
	return slices.Sorted(maps.Keys(infos))
}

// TestNATSBroker_ConnectionCut ends a connection without Close, as the death of a process
// does: what it held comes back after AckWait.
func TestNATSBroker_ConnectionCut(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	nc, _ := natsClient(t, cfg.URL)
	cut := cfg
	cut.URL, cut.Conn = "", nc
	dying := natsOpen(t, cut)
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	got, ended := natsSubscribe(t, dying, s)
	natsMustSend(t, dying, natsMessages("t", 1, 1))
	natsNext(t, got, patience)
	nc.Close()
	if err := <-ended; !waybill.IsUnavailable(err) {
		t.Errorf("Subscribe() = %v, want unavailable", err)
	}
	got, _ = natsSubscribe(t, natsOpen(t, cfg), s)
	text, d := natsNext(t, got, natsAckWait+patience)
	if text != "1" || !d.Redelivered() {
		t.Errorf("payload %q, Redelivered() = %v, want the message redelivered", text, d.Redelivered())
	}
}

// TestNATSBroker_DeliverBlocked holds up deliver for longer than AckWait. What waits behind
// it must not lapse and go to another subscriber.
func TestNATSBroker_DeliverBlocked(t *testing.T) {
	t.Parallel()
	b := natsOpen(t, natsConfig(t, natsURL(t)))
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	natsMustSend(t, b, natsMessages("t", 1, 5))
	ctx, cancel := context.WithCancel(t.Context())
	free, first, ended := make(chan struct{}), make(chan contract.Delivery, 5), make(chan error, 1)
	go func() {
		ended <- b.Subscriber(s).Subscribe(ctx, 5, func(d contract.Delivery) {
			first <- d
			<-free
		})
	}()
	held := <-first
	other, _ := natsSubscribe(t, b, s)
	for deadline := time.Now().Add(natsAckWait * 3 / 2); time.Now().Before(deadline); {
		held.Extend(ctx)
		select {
		case d := <-other:
			m, _ := d.Message()
			t.Fatalf("message %s went to another subscriber", m.Payload)
		case <-time.After(contract.ExtendInterval):
		}
	}
	close(free)
	held.Ack(ctx)
	natsExpect(t, first, "2", "3", "4", "5")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Subscribe() = %v", err)
	}
}

// TestNATSBroker_GivenBack ends a Subscribe, and closes a broker, with messages unsettled. The
// next subscriber has not to wait for AckWait.
func TestNATSBroker_GivenBack(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	cfg.AckWait = time.Hour
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	b := natsOpen(t, cfg)
	natsMustSend(t, b, natsMessages("t", 1, 5))
	ctx, cancel := context.WithCancel(t.Context())
	var held contract.Delivery
	err := b.Subscriber(s).Subscribe(ctx, 5, func(d contract.Delivery) {
		held = d
		cancel()
		natsEventually(t, "the others", func() bool { return natsPending(t, cfg) == 5 })
	})
	if err != nil {
		t.Fatal(err)
	}
	other := natsOpen(t, cfg)
	got, _ := natsSubscribe(t, other, s)
	natsExpect(t, got, "2", "3", "4", "5")
	b.Close()
	natsExpect(t, got, "1")
	if err := held.Ack(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ack() = %v after Close, want unavailable", err)
	}
}

// natsPending is how many messages the only consumer of the stream has delivered unsettled.
func natsPending(t *testing.T, cfg natsbroker.Config) int {
	t.Helper()
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	names := natsConsumers(t, js, cfg.Stream)
	if len(names) != 1 {
		t.Fatalf("consumers %v, want one", names)
	}
	c, err := js.Consumer(t.Context(), cfg.Stream, names[0])
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo().NumAckPending
}

// TestNATSBroker_OneDestinationTwoGroups has two groups claim one destination.
func TestNATSBroker_OneDestinationTwoGroups(t *testing.T) {
	t.Parallel()
	b := natsOpen(t, natsConfig(t, natsURL(t)))
	a, _ := natsSubscribe(t, b, consumer.Subscription{Group: "a", To: "x"})
	c, _ := natsSubscribe(t, b, consumer.Subscription{Group: "c", To: "x"})
	msgs := natsMessages("", 1, 50)
	for i := range msgs {
		msgs[i].To, msgs[i].Type = "x", "command"
	}
	natsMustSend(t, b, msgs)
	seen := make(map[string]int)
	for range msgs {
		var d contract.Delivery
		select {
		case d = <-a:
		case d = <-c:
		case <-time.After(patience):
			t.Fatalf("%d of %d messages arrived", len(seen), len(msgs))
		}
		m, _ := d.Message()
		if seen[string(m.Payload)]++; seen[string(m.Payload)] > 1 {
			t.Errorf("message %s went to both groups", m.Payload)
		}
		d.Ack(t.Context())
	}
}
