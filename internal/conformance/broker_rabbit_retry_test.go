package conformance

import (
	"context"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
)

// get takes a message from a queue past the adapter.
func (f *rabbitFault) get(queue string) amqp.Delivery {
	f.Helper()
	ch := f.channel(f.T)
	var d amqp.Delivery
	f.eventually("a message in "+queue, func() (ok bool) {
		var err error
		if d, ok, err = ch.Get(queue, true); err != nil {
			f.Fatal(err)
		}
		return ok
	})
	return d
}

func TestRabbitPublisher_OnTheWire(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	m := waybill.Message{
		ID: "1", Type: "order.created", Source: "shop", Topic: f.topic, Key: "k", CorrelationID: "c",
		ContentType: "text/plain", Payload: []byte("x"), Headers: map[string]string{"h": "v"},
		Time: time.Unix(1700000000, 123456000),
	}
	m.Complete()
	classic := "classic-" + f.queue // which adds nothing to what was published
	f.bind(classic, f.topic, nil)
	f.all("accepted", f.sendAll(patience, []waybill.Message{m})(), accepted)
	d := f.get(classic)
	if d.DeliveryMode != amqp.Persistent {
		t.Error("the message is not persistent")
	}
	if d.MessageId != "1" || d.Type != "order.created" || d.AppId != "shop" || d.CorrelationId != "c" ||
		d.ContentType != "text/plain" || d.Timestamp.Unix() != 1700000000 || string(d.Body) != "x" {
		t.Errorf("properties are %+v", d)
	}
	want := map[string]string{
		"cloudEvents:specversion": "1.0", "cloudEvents:id": "1", "cloudEvents:source": "shop",
		"cloudEvents:type": "order.created", "cloudEvents:partitionkey": "k", "h": "v",
		"cloudEvents:time": "2023-11-14T22:13:20.123456Z", "cloudEvents:correlationid": "c",
		"cloudEvents:tenant": "default",
	}
	for name, value := range want {
		if d.Headers[name] != value {
			t.Errorf("header %s = %v, want %q", name, d.Headers[name], value)
		}
	}
	if len(d.Headers) != len(want)+1 { // one more tells returns apart
		t.Errorf("headers are %v, want those of %v and one more", d.Headers, want)
	}
}

// foreign is a message with all that AMQP has and this project does not write.
func foreign(cc string) amqp.Publishing {
	return amqp.Publishing{
		Headers: amqp.Table{
			"CC": []any{cc}, "text": "ü", "bool": true, "i8": int8(-1), "i16": int16(-2), "i32": int32(-3),
			"i64": int64(-4), "f32": float32(0.5), "f64": 0.25, "bytes": []byte("\xff"), "nothing": nil,
			"decimal": amqp.Decimal{Scale: 2, Value: 123}, "time": time.Unix(1700000000, 0),
			"list": []any{"a", int32(1)}, "table": amqp.Table{"a": amqp.Table{"b": "c"}},
		},
		ContentType: "text/plain", ContentEncoding: "identity", DeliveryMode: amqp.Persistent, Priority: 3,
		CorrelationId: "c", ReplyTo: "r", Expiration: "600000", MessageId: "1", Timestamp: time.Unix(1700000000, 0),
		Type: "foreign", UserId: "guest", AppId: "app", Body: []byte("\xff\x00body"),
	}
}

// retryOnce receives one message, asks for a retry and ends.
func (f *rabbitFault) retryOnce(s consumer.Subscription, delay time.Duration) received {
	f.Helper()
	got, stop := f.subscribe(f.broker, s, 1)
	defer stop()
	d := f.next(got)
	if err := d.Retry(f.Context(), delay); err != nil {
		f.Fatalf("Retry(%v) = %v", delay, err)
	}
	return d
}

// A retried message is the one that was published, but for what would send the copy
// elsewhere or have it refused.
func TestRabbitRetry_Copy(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	group, other := "group-"+f.queue, "cc-"+f.queue
	f.bind(other, other, nil)
	f.bind(group, f.topic, amqp.Table{"x-queue-type": "classic"})
	p := foreign(other)
	f.publish(t, f.exchange, f.topic, p)
	for range 2 {
		d := f.retryOnce(consumer.Subscription{Group: group, Topics: []string{f.topic}}, 0)
		if m, err := d.Message(); err != nil || m.Topic != f.topic || m.To != "" || m.ID != "1" {
			t.Errorf("Message() = %+v, %v, want the topic it was published to", m, err)
		}
	}
	if n := f.depth(other); n != 1 {
		t.Errorf("%d messages in the queue named by CC, want 1", n)
	}
	if n := f.depth(f.queue); n != 1 {
		t.Errorf("%d messages in another queue of the topic, want 1", n)
	}
	d := f.get(group)
	again := amqp.Publishing{
		Headers: p.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		Expiration: "600000", MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: "guest",
		AppId: d.AppId, Body: d.Body,
	}
	if !reflect.DeepEqual(again, p) {
		t.Errorf("after the retry:\n%+v, want\n%+v", again, p)
	}
	for name, value := range p.Headers {
		if name != "CC" && !reflect.DeepEqual(d.Headers[name], value) {
			t.Errorf("header %s = %#v after the retry, want %#v", name, d.Headers[name], value)
		}
	}
}

// What waits does so on the server, whoever asked for it.
func TestRabbitRetry_Survives(t *testing.T) {
	t.Parallel()
	const delay = time.Second
	f := newRabbitFault(t, rabbitbroker.Config{})
	s := consumer.Subscription{Group: "g", To: f.queue}
	f.post("1")
	start := time.Now()
	f.retryOnce(s, delay)
	f.broker.Close()
	got, _ := f.subscribe(f.openAnother(), s, 1)
	d := f.next(got)
	if waited := d.at.Sub(start); waited < delay || d.text != "1" || !d.Redelivered() {
		t.Errorf("delivery of %q after %v, Redelivered() = %v, want 1 after %v", d.text, waited, d.Redelivered(), delay)
	}
}

// A message's own time to live must not cut its wait short.
func TestRabbitRetry_Expiration(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	f := newRabbitFault(t, rabbitbroker.Config{})
	got, _ := f.subscribe(f.broker, consumer.Subscription{Group: "g", To: f.queue}, 1)
	f.eventually("the subscriber", f.consumed(f.queue, 1))
	f.publish(t, "", f.queue, amqp.Publishing{Expiration: "900", Body: []byte("1")})
	first := f.next(got)
	start := time.Now()
	if err := first.Retry(t.Context(), delay); err != nil {
		t.Fatalf("Retry() = %v", err)
	}
	if d := f.next(got); d.at.Sub(start) < delay {
		t.Errorf("delivery after %v, want it after %v", d.at.Sub(start), delay)
	}
}

func (f *rabbitFault) openAnother() rabbitBroker {
	b := f.open(f.T, rabbitbroker.Config{})
	f.Cleanup(func() { b.Close() })
	return b
}

// A delay beyond the longest step is waited for in several, which the subscriber sees to.
func TestRabbitRetry_SeveralSteps(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	got, _ := f.subscribe(f.broker, consumer.Subscription{Group: "g", To: f.queue}, 1)
	start := time.Now()
	f.publish(t, "", f.queue, amqp.Publishing{
		Headers: amqp.Table{"waybill-retry": int32(1), "waybill-retry-left": int64(700)}, Body: []byte("1"),
	})
	if d := f.next(got); d.at.Sub(start) < 700*time.Millisecond || d.text != "1" {
		t.Errorf("delivery of %q after %v, want 1 after 700 ms", d.text, d.at.Sub(start))
	}
}

// Without a confirm for the copy the original stays.
func TestRabbitRetry_Unconfirmed(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	got, _ := f.subscribe(f.broker, consumer.Subscription{Group: "g", To: f.queue}, 1)
	f.post("1")
	d := f.next(got)
	f.proxy.StallReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := d.Retry(ctx, time.Minute); !waybill.IsUnavailable(err) {
		t.Errorf("Retry() = %v of kind %v, want unavailable", err, waybill.KindOf(err))
	}
	f.proxy.Cut()
	f.proxy.StallReplies(false)
	again := f.next(got)
	if again.text != "1" || !again.Redelivered() {
		t.Errorf("delivery of %q, Redelivered() = %v, want 1 redelivered", again.text, again.Redelivered())
	}
	if err := again.Retry(t.Context(), 0); err != nil {
		t.Errorf("Retry() = %v", err)
	}
	if d := f.next(got); d.text != "1" {
		t.Errorf("delivery of %q, want 1", d.text)
	}
}
