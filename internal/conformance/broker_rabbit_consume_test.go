package conformance

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

func TestRabbitSubscriber_Cut(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	got, _ := f.subscribe(f.broker, consumer.Subscription{Group: "g", To: f.queue}, 10)
	f.post("1")
	first := f.next(got)
	f.proxy.Refuse(true)
	f.proxy.Cut()
	f.eventually("the cut to be noticed", func() bool { return waybill.IsUnavailable(first.Ack(t.Context())) })
	if err := first.Retry(t.Context(), 0); !waybill.IsUnavailable(err) {
		t.Errorf("Retry() = %v of kind %v on a lost connection, want unavailable", err, waybill.KindOf(err))
	}
	f.eventually("the message to be ready again", func() bool { return f.depth(f.queue) == 1 })
	f.proxy.Refuse(false)
	again := f.next(got)
	if again.text != "1" || !again.Redelivered() {
		t.Errorf("delivery of %q, Redelivered() = %v, want 1 redelivered", again.text, again.Redelivered())
	}
	if err := again.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v", err)
	}
	f.post("2")
	if d := f.next(got); d.text != "2" {
		t.Errorf("delivery of %q, want 2", d.text)
	}
}

// consumed returns whether a queue exists and has n consumers.
func (f *rabbitFault) consumed(queue string, n int) func() bool {
	return func() bool {
		ch, err := f.conn.Channel()
		if err != nil {
			f.Fatal(err)
		}
		defer ch.Close()
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err == nil && q.Consumers == n
	}
}

func TestRabbitSubscriber_QueueDeleted(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	s := consumer.Subscription{Group: "group-" + f.queue, Topics: []string{f.topic}}
	got, _ := f.subscribe(f.broker, s, 10)
	ch := f.channel(t)
	bound := f.consumed(s.Group, 1)
	f.eventually("the group's queue", bound)
	if _, err := ch.QueueDelete(s.Group, false, false, false); err != nil {
		t.Fatal(err)
	}
	f.eventually("the group's queue again", bound)
	f.all("accepted", f.send(patience, 1)(), accepted)
	f.next(got)
}

// What was prefetched and not delivered goes to others when Subscribe ends, although the
// channel stays open for a delivery that a handler still works on.
func TestRabbitSubscriber_GivesBack(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	s := consumer.Subscription{Group: "g", To: f.queue}
	for _, text := range []string{"1", "2", "3", "4", "5"} {
		f.post(text)
	}
	got, stop := f.subscribe(f.broker, s, 2)
	held := f.next(got)
	f.next(got)
	stop()
	others, stopOthers := f.subscribe(f.broker, s, 10)
	for _, want := range []string{"3", "4", "5"} {
		if d := f.next(others); d.text != want {
			t.Errorf("delivery of %q, want %s", d.text, want)
		}
	}
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v after Subscribe returned, want nil", err)
	}
	if err := held.Ack(t.Context()); err == nil {
		t.Error("Ack() = nil the second time, want an error")
	}
	stopOthers()
	f.broker.Close()
	f.eventually("what is unsettled to be ready again", func() bool { return f.depth(f.queue) == 4 })
}

// deliver is held up while more has arrived.
func TestRabbitSubscriber_GivesBackUndelivered(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	for range 10 {
		f.post("x")
	}
	entered, leave, ended := make(chan contract.Delivery, 10), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		s := consumer.Subscription{Group: "g", To: f.queue}
		ended <- f.broker.Subscriber(s).Subscribe(ctx, 10, func(d contract.Delivery) {
			entered <- d
			<-leave
		})
	}()
	held := <-entered
	f.eventually("all to be prefetched", func() bool { return f.depth(f.queue) == 0 })
	cancel()
	close(leave)
	if err := <-ended; err != nil {
		t.Errorf("Subscribe() = %v, want nil", err)
	}
	f.eventually("the undelivered to be ready again", func() bool { return f.depth(f.queue) == 9 })
	if err := held.Ack(t.Context()); err != nil {
		t.Errorf("Ack() = %v", err)
	}
	f.broker.Close()
	if n := f.depth(f.queue); n != 9 || len(entered) != 0 {
		t.Errorf("%d messages are left and %d were delivered late, want 9 and none", n, len(entered))
	}
}

// A subscription leaves no channel behind: the broker may have three.
func TestRabbitSubscriber_ChannelsClosed(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	b := f.open(t, rabbitbroker.Config{URL: rabbitURL() + "?channel_max=3"})
	t.Cleanup(func() { b.Close() })
	for range 8 {
		f.post("x")
		got, stop := f.subscribe(b, consumer.Subscription{Group: "g", To: f.queue}, 1)
		d := f.next(got)
		stop()
		if err := d.Ack(t.Context()); err != nil {
			t.Fatalf("Ack() = %v", err)
		}
	}
}

func TestRabbitSubscriber_OtherArguments(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	queue := "taken-" + f.queue
	f.bind(queue, f.topic, amqp.Table{"x-max-length": int32(5)})
	s := consumer.Subscription{Group: queue, Topics: []string{f.topic}}
	err := f.broker.Subscriber(s).Subscribe(t.Context(), 1, func(contract.Delivery) {})
	if !waybill.IsPermanent(err) {
		t.Errorf("Subscribe() = %v of kind %v, want permanent", err, waybill.KindOf(err))
	}
}

func TestRabbitSubscriber_Invalid(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	for name, test := range map[string]struct {
		s        consumer.Subscription
		prefetch int
	}{
		"reserved group":     {consumer.Subscription{Group: "amq.g", Topics: []string{"t"}}, 1},
		"reserved To":        {consumer.Subscription{Group: "g", To: "amq.x"}, 1},
		"no prefetch":        {consumer.Subscription{Group: "g", To: f.queue}, 0},
		"prefetch too large": {consumer.Subscription{Group: "g", To: f.queue}, 65536},
	} {
		err := f.broker.Broker.Subscriber(test.s).Subscribe(t.Context(), test.prefetch, func(contract.Delivery) {})
		if !waybill.IsPermanent(err) {
			t.Errorf("%s: Subscribe() = %v, want an InvalidError", name, err)
		}
	}
}

func TestRabbitSubscriber_NoServer(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	f.proxy.Refuse(true)
	s := consumer.Subscription{Group: "g", To: f.queue}
	if err := f.broker.Subscriber(s).Subscribe(t.Context(), 1, func(contract.Delivery) {}); !waybill.IsUnavailable(err) {
		t.Errorf("Subscribe() = %v, want unavailable", err)
	}
}

func TestRabbitSubscriber_Closed(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	ended := make(chan error, 1)
	go func() {
		s := consumer.Subscription{Group: "g", To: f.queue}
		ended <- f.broker.Subscriber(s).Subscribe(t.Context(), 1, func(d contract.Delivery) { f.broker.Close() })
	}()
	f.post("1")
	select {
	case err := <-ended:
		if !waybill.IsUnavailable(err) {
			t.Errorf("Subscribe() = %v after Close, want unavailable", err)
		}
	case <-time.After(patience):
		t.Error("Subscribe() runs on after Close")
	}
}

func TestRabbitSubscriber_Patterns(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	star := consumer.Subscription{Group: "star-" + f.queue, Topics: []string{f.topic + ".*"}}
	hash := consumer.Subscription{Group: "hash-" + f.queue, Topics: []string{f.topic + ".#"}}
	one, _ := f.subscribe(f.broker, star, 10)
	all, _ := f.subscribe(f.broker, hash, 10)
	f.eventually("star", f.consumed(star.Group, 1))
	f.eventually("hash", f.consumed(hash.Group, 1))
	for _, name := range []string{".a.b", ".a"} {
		m := waybill.Message{Topic: f.topic + name, Payload: []byte(name)}
		m.Complete()
		f.all("accepted", f.sendAll(patience, []waybill.Message{m})(), accepted)
	}
	for _, got := range []received{f.next(all), f.next(all), f.next(one)} {
		if m, err := got.Message(); err != nil || m.Topic != f.topic+got.text {
			t.Errorf("Message() = %v, %v, want the topic of the message", m, err)
		}
	}
	if len(one) != 0 {
		t.Error("the pattern with * got a topic of two more words")
	}
}

func TestRabbitConfig_SingleActiveConsumer(t *testing.T) {
	t.Parallel()
	// Of a quorum queue the server counts the one consumer that is active.
	f := newRabbitFault(t, rabbitbroker.Config{SingleActiveConsumer: true, QueueType: rabbitbroker.ClassicQueue})
	s := consumer.Subscription{Group: "single-" + f.queue, Topics: []string{f.topic}}
	got := make([]<-chan received, 2)
	for i := range got {
		got[i], _ = f.subscribe(f.broker, s, 1)
		f.eventually("the subscriber", f.consumed(s.Group, i+1))
	}
	f.all("accepted", f.send(patience, 10)(), accepted)
	for range 10 {
		if err := f.next(got[0]).Ack(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(got[1]) != 0 {
		t.Error("the second subscriber received while the first did")
	}
}
