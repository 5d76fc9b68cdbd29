package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
)

// rabbitFault is one broker behind a proxy, and one queue of its that topic is bound to.
type rabbitFault struct {
	*testing.T
	*rabbit
	broker rabbitBroker
	proxy  *faultproxy.Proxy
	topic  string
	queue  string
}

func newRabbitFault(t *testing.T, cfg rabbitbroker.Config) *rabbitFault {
	t.Helper()
	r := newRabbit(t)
	var proxy *faultproxy.Proxy
	cfg.URL, proxy = behindProxy(t, rabbitURL())
	id := waybill.NewID()
	f := &rabbitFault{T: t, rabbit: r, broker: r.open(t, cfg), proxy: proxy, topic: "t-" + id, queue: "q-" + id}
	t.Cleanup(func() { f.broker.Close() })
	f.note(f.queue)
	if err := f.broker.Declare(t.Context(), consumer.Subscription{Group: f.queue, Topics: []string{f.topic}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRabbitBroker_SeveralNodes: while one of the nodes answers, the broker does, whether the others are away or silent.
func TestRabbitBroker_SeveralNodes(t *testing.T) {
	t.Parallel()
	r := newRabbit(t)
	first, a := behindProxy(t, rabbitURL())
	second, b := behindProxy(t, rabbitURL())
	broker := r.open(t, rabbitbroker.Config{URL: first + "," + second, ConnectTimeout: 500 * time.Millisecond})
	defer broker.Close()
	answers := func() bool { return broker.Ping(t.Context()) == nil }
	waitFor(t, "both nodes are there", answers)
	for _, away := range []*faultproxy.Proxy{a, b} {
		away.Refuse(true)
		away.Cut()
		waitFor(t, "one node is away", answers)
		away.Refuse(false)
		away.Stall(true)
		a.Cut()
		b.Cut()
		waitFor(t, "one node is silent", answers)
		away.Stall(false)
	}
	a.Refuse(true)
	b.Refuse(true)
	a.Cut()
	b.Cut()
	err := broker.Ping(t.Context())
	for strings.Contains(fmt.Sprint(err), "lost") { // the connection of before
		err = broker.Ping(t.Context())
	}
	if !waybill.IsUnavailable(err) || !strings.Contains(err.Error(), a.Addr()) || !strings.Contains(err.Error(), b.Addr()) {
		t.Errorf("Ping() = %v with no node, want it unavailable, and both addresses", err)
	}
}

// behindProxy returns a proxy for the server of a URL, and the URL by which to go through it.
func behindProxy(t *testing.T, server string) (string, *faultproxy.Proxy) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("the server's address is not a URL")
	}
	proxy, err := faultproxy.New(t.Context(), u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	u.Host = proxy.Addr()
	return u.String(), proxy
}

// bind declares a queue past the adapter.
func (f *rabbitFault) bind(queue, topic string, args amqp.Table) {
	f.Helper()
	f.note(queue)
	ch := f.channel(f.T)
	if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		f.Fatal(err)
	}
	if err := ch.QueueBind(queue, topic, f.exchange, false, nil); err != nil {
		f.Fatal(err)
	}
}

// depth returns the number of messages in a queue that are ready.
func (f *rabbitFault) depth(queue string) int {
	f.Helper()
	q, err := f.channel(f.T).QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		f.Fatal(err)
	}
	return q.Messages
}

func (f *rabbitFault) eventually(what string, done func() bool) {
	f.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			f.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// send writes n messages and returns what waits for their results.
func (f *rabbitFault) send(within time.Duration, n int) (wait func() []error) {
	msgs := make([]waybill.Message, n)
	for i := range msgs {
		msgs[i] = waybill.Message{Topic: f.topic, Payload: []byte("x")}
		msgs[i].Complete()
	}
	return f.sendAll(within, msgs)
}

func (f *rabbitFault) sendAll(within time.Duration, msgs []waybill.Message) (wait func() []error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	f.Cleanup(cancel)
	out := make([]contract.Outgoing, len(msgs))
	for i := range msgs {
		out[i].Message = &msgs[i]
	}
	return f.broker.Publisher().Send(ctx, out)
}

// all fails the test unless ok holds for every result.
func (f *rabbitFault) all(what string, results []error, ok func(error) bool) {
	f.Helper()
	for i, err := range results {
		if !ok(err) {
			f.Fatalf("message %d: %v of kind %v, want %s", i, err, waybill.KindOf(err), what)
		}
	}
}

func accepted(err error) bool { return err == nil }

func connectionLost(err error) bool {
	return waybill.IsUnavailable(err) && errors.Is(err, contract.ErrConnectionLost)
}

func unconfirmed(err error) bool {
	return waybill.IsUnavailable(err) && !errors.Is(err, contract.ErrConnectionLost)
}

func unroutable(err error) bool {
	return waybill.IsPermanent(err) && waybill.ReasonOf(err) == waybill.ReasonUnroutable
}

func TestRabbitPublisher_CutBeforeConfirm(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	first := f.send(patience, 10)
	f.all("accepted", f.send(patience, 10)(), accepted) // so first is confirmed as well
	f.proxy.StallReplies(true)
	second := f.send(patience, 10)
	f.eventually("the messages to arrive", func() bool { return f.depth(f.queue) == 30 })
	f.proxy.Cut()
	f.all("connection lost", second(), connectionLost)
	f.all("accepted", first(), accepted)
	f.proxy.StallReplies(false)
	f.all("accepted by a new connection", f.send(patience, 10)(), accepted)
}

func TestRabbitPublisher_ConfirmsStalled(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.proxy.StallReplies(true)
	f.all("unavailable", f.send(300*time.Millisecond, 10)(), unconfirmed)
	f.proxy.StallReplies(false)
	f.all("accepted", f.send(patience, 10)(), accepted)
}

// A node that has not confirmed anything for long is left, before its heartbeats are missed, and before those who wait
// for late confirms have stopped waiting.
func TestRabbitPublisher_NothingConfirmed(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{Heartbeat: time.Hour, ConnectTimeout: 500 * time.Millisecond})
	f.all("accepted", f.send(patience, 10)(), accepted)
	f.proxy.Swallow()
	f.all("unavailable", f.send(100*time.Millisecond, 10)(), unconfirmed)
	left := func(err error) bool { return unconfirmed(err) && !errors.Is(err, context.DeadlineExceeded) }
	f.all("unavailable, and not because the time is over", f.send(patience, 10)(), left)
	f.all("accepted by a new connection", f.send(30*time.Second, 10)(), accepted)
}

// A server that does not read must hold up neither Send nor the batches after it, and no
// message may be blamed for it.
func TestRabbitPublisher_WritesStalled(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	msgs := make([]waybill.Message, 40)
	for i := range msgs {
		msgs[i] = waybill.Message{Topic: f.topic, Payload: bytes.Repeat([]byte("x"), 900<<10)}
		msgs[i].Complete()
	}
	f.proxy.Stall(true)
	small, big := f.send(400*time.Millisecond, 10), f.sendAll(400*time.Millisecond, msgs)
	behind := f.send(time.Millisecond, 10)
	f.all("unavailable", behind(), unconfirmed)
	f.all("unavailable", big(), unconfirmed)
	f.all("unavailable", small(), unconfirmed)
	f.proxy.Stall(false)
	f.all("accepted by a new connection", f.send(patience, 10)(), accepted)
}

// Ids repeat, so a return must find its message by something else.
func TestRabbitPublisher_ReturnsAmongEqualIDs(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	var msgs []waybill.Message
	for i := range 100 {
		m := waybill.Message{ID: "same", Topic: f.topic, Payload: []byte("same")}
		switch i % 10 {
		case 3:
			m.Topic = "nobody"
		case 7:
			m.Topic, m.To = "", "missing-"+f.queue
		}
		m.Complete()
		msgs = append(msgs, m)
	}
	for i, err := range f.sendAll(patience, msgs)() {
		if refuse := i%10 == 3 || i%10 == 7; refuse != unroutable(err) || !refuse && err != nil {
			t.Errorf("message %d: %v, want unroutable: %v", i, err, refuse)
		}
	}
	if n := f.depth(f.queue); n != 80 {
		t.Errorf("%d messages in the queue, want 80", n)
	}
}

func TestRabbitPublisher_Nack(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.bind("full-"+f.queue, f.topic, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	f.all("accepted", f.send(patience, 1)(), accepted)
	f.all("refused", f.send(patience, 10)(), func(err error) bool { return err != nil && waybill.IsTransient(err) })
}

// After a refusal messages go over a new channel: one that knew no leader of a quorum queue may refuse what is for it
// for as long as it is open, as TestCluster_RabbitMQ has met. Others are left open.
func TestRabbitPublisher_NewChannelAfterNack(t *testing.T) {
	t.Parallel()
	const channelOpen = "\x00\x14\x00\x0a" // class and method
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.bind("full-"+f.queue, f.topic, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	f.all("accepted", f.send(patience, 1)(), accepted)
	f.proxy.CutOn(channelOpen)
	refused := func(err error) bool { return err != nil && waybill.IsTransient(err) }
	f.all("refused", f.send(patience, 10)(), refused)
	f.all("cut while a channel is opened", f.send(patience, 10)(), waybill.IsUnavailable)
	f.proxy.CutOn("")
	f.all("refused again", f.send(patience, 10)(), refused)
}

// An envelope that fits no frame would cost the connection. Around the limit each one is
// either refused alone or accepted.
func TestRabbitPublisher_EnvelopeTooLarge(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	var msgs []waybill.Message
	for n := 129_000; n < 132_000; n += 50 {
		m := waybill.Message{Topic: f.topic, Headers: map[string]string{"h": strings.Repeat("x", n)}}
		m.Complete()
		msgs = append(msgs, m)
	}
	results := f.sendAll(patience, msgs)()
	for i, err := range results {
		if err != nil && (!waybill.IsPermanent(err) || waybill.ReasonOf(err) != waybill.ReasonTooLarge) {
			t.Errorf("message %d: %v, want accepted or too large", i, err)
		}
	}
	if last := len(results) - 1; results[0] != nil || results[last] == nil {
		t.Errorf("results are %v to %v, want the first accepted and the last refused", results[0], results[last])
	}
}

// Without its exchange a message kills the channel, which is no message's fault. The next attempt
// declares the exchange and finds that nobody is bound to it.
func TestRabbitPublisher_ExchangeDeleted(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	if err := f.channel(t).ExchangeDelete(f.exchange, false, false); err != nil {
		t.Fatal(err)
	}
	f.all("unavailable", f.send(patience, 3)(), func(err error) bool { return waybill.IsUnavailable(err) && !connectionLost(err) })
	f.all("unroutable", f.send(patience, 3)(), unroutable)
}

func TestRabbitPublisher_Blocked(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	blocked := []byte("\x01\x00\x00\x00\x00\x00\x08\x00\x0a\x00\x3c\x03low\xce")
	unblocked := []byte("\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x3d\xce")
	if err := f.proxy.Inject(blocked); err != nil {
		t.Fatal(err)
	}
	f.eventually("Ping to fail", func() bool { return waybill.IsUnavailable(f.broker.Ping(t.Context())) })
	f.all("unavailable", f.send(patience, 3)(), unconfirmed)
	if n := f.depth(f.queue); n != 0 {
		t.Errorf("%d messages were sent on a blocked connection", n)
	}
	if err := f.proxy.Inject(unblocked); err != nil {
		t.Fatal(err)
	}
	f.eventually("Ping to work", func() bool { return f.broker.Ping(t.Context()) == nil })
	f.all("accepted", f.send(patience, 3)(), accepted)
}

// TestRabbitPublisher_NotPermitted closes the channel as a server does on a user without
// permission to write: no message is to blame.
func TestRabbitPublisher_NotPermitted(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.all("accepted", f.send(patience, 1)(), accepted)
	f.proxy.StallReplies(true)
	wait := f.send(patience, 3)
	const channelClose = "\x01\x00\x01\x00\x00\x00\x11\x00\x14\x00\x28\x01\x93\x06denied\x00\x3c\x00\x28\xce" // 403
	if err := f.proxy.Inject([]byte(channelClose)); err != nil {
		t.Fatal(err)
	}
	f.all("unavailable, and no message blamed", wait(), unconfirmed)
	f.proxy.StallReplies(false)
}

func TestRabbitPublisher_OwnClose(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.proxy.StallReplies(true)
	wait := f.send(patience, 3)
	f.broker.Close()
	f.all("unavailable, and no message blamed", wait(), unconfirmed)
}

func TestRabbitOpen_Refused(t *testing.T) {
	t.Parallel()
	r := newRabbit(t)
	wrong, err := url.Parse(rabbitURL())
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword("guest", "s3cret")
	silent, err := faultproxy.New(t.Context(), wrong.Host)
	if err != nil {
		t.Fatal(err)
	}
	silent.Stall(true)
	for name, cfg := range map[string]rabbitbroker.Config{
		"wrong password": {URL: wrong.String()},
		"no server":      {URL: "amqp://guest:s3cret@127.0.0.1:1/"},
		"no answer":      {URL: "amqp://guest:s3cret@" + silent.Addr(), ConnectTimeout: 200 * time.Millisecond},
		"unknown vhost":  {URL: rabbitURL() + "nowhere-s3cret"},
	} {
		cfg.Exchange = r.exchange
		b, err := rabbitbroker.Open(t.Context(), cfg)
		if err != nil {
			t.Errorf("%s: Open() = %v", name, err)
			continue
		}
		defer b.Close()
		if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
			t.Errorf("%s: Ping() = %v of kind %v, want unavailable", name, err, waybill.KindOf(err))
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: Ping() = %v, which holds the password", name, err)
		}
	}
}

// received is what a test's subscription got.
type received struct {
	contract.Delivery
	text string
	at   time.Time
}

// subscribe receives until the test ends, or stop is called.
func (f *rabbitFault) subscribe(b rabbitBroker, s consumer.Subscription, prefetch int) (got <-chan received, stop func()) {
	return f.receive(b.Subscriber(s), prefetch)
}

// receive is subscribe by a subscriber that there is.
func (f *rabbitFault) receive(sub contract.Subscriber, prefetch int) (got <-chan received, stop func()) {
	deliveries, ended := make(chan received, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- sub.Subscribe(ctx, prefetch, func(d contract.Delivery) {
			m, _ := d.Message()
			deliveries <- received{d, string(m.Payload), time.Now()}
		})
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("Subscribe() = %v, want nil", err)
		}
		ended <- nil
	}
	f.Cleanup(stop)
	return deliveries, stop
}

func (f *rabbitFault) next(got <-chan received) received {
	f.Helper()
	select {
	case d := <-got:
		return d
	case <-time.After(patience):
		f.Fatalf("no delivery within %v", patience)
		panic("unreachable")
	}
}

// post publishes a text to the queue, past the adapter.
func (f *rabbitFault) post(text string) {
	f.Helper()
	f.publish(f.T, "", f.queue, amqp.Publishing{MessageId: text, Body: []byte(text)})
}
