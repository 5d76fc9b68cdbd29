package cloudevents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

func env(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// odd is a message with what is easily damaged on the way.
func odd() waybill.Message {
	return waybill.Message{
		ID: `Größe 1/2 %41 "x"`, Source: "https://shop.example/a%20b?c=d", Type: "order.created@v2", Topic: "odd",
		Subject: "注文 😀 4711", Key: "key with  spaces", Tenant: "acme: west; 50%25", CorrelationID: `c\1"`,
		DataSchema: "https://shop.example/schema#v2", ContentType: "application/octet-stream", Payload: []byte("\xff\x00 \r\n\"x\""),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
		Time: time.Date(2026, 2, 3, 4, 5, 6, 789_012_000, time.UTC), Headers: map[string]string{"x-user": "ann"},
	}
}

// patience ends a test that hangs.
const patience = 5 * time.Minute

// publish sends the odd message in a content mode.
func publish(t *testing.T, b broker.Broker, structured bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := odd()
	out := contract.Outgoing{Message: &m, DedupID: fmt.Sprint(m.ID, structured), Structured: structured}
	must(t, errors.Join(b.Publisher().Send(ctx, []contract.Outgoing{out})()...))
}

// expect reads a message with the SDK and compares it with what was published in a content mode.
func expect(t *testing.T, m binding.Message, structured bool) {
	t.Helper()
	if got := m.ReadEncoding(); got == binding.EncodingStructured != structured {
		t.Errorf("encoding %v, want it structured: %v", got, structured)
	}
	event, err := binding.ToEvent(t.Context(), m)
	must(t, err)
	must(t, event.Validate())
	want := odd()
	text := func(name string) string { return fmt.Sprint(event.Extensions()[name]) }
	for name, pair := range map[string][2]string{
		"specversion": {event.SpecVersion(), "1.0"}, "id": {event.ID(), want.ID}, "source": {event.Source(), want.Source},
		"type": {event.Type(), want.Type}, "subject": {event.Subject(), want.Subject}, "dataschema": {event.DataSchema(), want.DataSchema},
		"datacontenttype": {event.DataContentType(), want.ContentType}, "partitionkey": {text("partitionkey"), want.Key},
		"tenant": {text("tenant"), want.Tenant}, "correlationid": {text("correlationid"), want.CorrelationID},
		"traceparent": {text("traceparent"), want.TraceParent}, "tracestate": {text("tracestate"), want.TraceState},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s = %q, want %q", name, pair[0], pair[1])
		}
	}
	if !event.Time().Equal(want.Time) || !bytes.Equal(event.Data(), want.Payload) {
		t.Errorf("time %v, data %q, want %v, %q", event.Time(), event.Data(), want.Time, want.Payload)
	}
}

const structuredID = "structured"

// structured returns an event that is odd but for its id, as the SDK writes it in the structured
// mode.
func structured(t *testing.T) (contentType string, body []byte) {
	t.Helper()
	want, event := odd(), cloudevents.NewEvent()
	event.SetID(structuredID)
	event.SetSource(want.Source)
	event.SetType(want.Type)
	event.SetSubject(want.Subject)
	event.SetTime(want.Time)
	event.SetDataSchema(want.DataSchema)
	event.SetExtension("partitionkey", want.Key)
	event.SetExtension("correlationid", want.CorrelationID)
	must(t, event.SetData(want.ContentType, want.Payload))
	must(t, event.Validate())
	body, err := format.JSON.Marshal(&event)
	must(t, err)
	return format.JSON.MediaType(), body
}

// expectStructured publishes a structured event past Waybill, and compares what the broker's
// adapter reads for a consumer group.
func expectStructured(t *testing.T, b broker.Broker, group string, send func(contentType string, body []byte)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, ended := make(chan *waybill.Message, 10), make(chan error, 1)
	go func() {
		ended <- b.Subscriber(consumer.Subscription{Group: group, Topics: []string{odd().Topic}}).Subscribe(ctx, 1, func(d contract.Delivery) {
			m, err := d.Message()
			if m.ID != odd().ID { // what was published in the binary mode may be there still
				got <- m
			}
			ended <- errors.Join(err, d.Ack(ctx))
		})
	}()
	tick := time.NewTicker(100 * time.Millisecond) // what is sent before the group is there is lost
	defer tick.Stop()
	contentType, body := structured(t)
	for {
		select {
		case m := <-got:
			want := odd()
			for name, pair := range map[string][2]string{
				"ID": {m.ID, structuredID}, "Source": {m.Source, want.Source}, "Type": {m.Type, want.Type}, "Topic": {m.Topic, want.Topic},
				"Subject": {m.Subject, want.Subject}, "Key": {m.Key, want.Key}, "CorrelationID": {m.CorrelationID, want.CorrelationID},
				"DataSchema": {m.DataSchema, want.DataSchema}, "ContentType": {m.ContentType, want.ContentType},
				"Payload": {string(m.Payload), string(want.Payload)}, "Time": {m.Time.String(), want.Time.String()},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s = %q, want %q", name, pair[0], pair[1])
				}
			}
			return
		case err := <-ended:
			must(t, err)
		case <-tick.C:
			send(contentType, body)
		case <-ctx.Done():
			t.Fatal("no structured event within 30s")
		}
	}
}

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	address := env("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")
	exchange := "waybill-test-" + waybill.NewID()
	b, err := rabbitbroker.Open(t.Context(), rabbitbroker.Config{URL: address, Exchange: exchange})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	conn, err := amqp.Dial(address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	channel, err := conn.Channel()
	must(t, err)
	t.Cleanup(func() { channel.ExchangeDelete(exchange, false, false) })
	must(t, channel.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil))
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	must(t, err)
	must(t, channel.QueueBind(queue.Name, odd().Topic, exchange, false, nil))
	deliveries, err := channel.Consume(queue.Name, "", true, true, false, false, nil)
	must(t, err)
	for _, structured := range []bool{false, true} {
		publish(t, b, structured)
		select {
		case d := <-deliveries:
			headers := make(map[string]string)
			for name, value := range d.Headers {
				headers[name] = fmt.Sprint(value)
			}
			expect(t, NewMessage(RabbitMQ, headers, d.ContentType, d.Body), structured)
		case <-time.After(patience):
			t.Fatalf("no message within %v", patience)
		}
	}
	t.Cleanup(func() { channel.QueueDelete(exchange, false, false, false) })
	expectStructured(t, b, exchange, func(contentType string, body []byte) {
		must(t, channel.PublishWithContext(t.Context(), exchange, odd().Topic, false, false, amqp.Publishing{ContentType: contentType, Body: body}))
	})
}

func TestNATS(t *testing.T) {
	t.Parallel()
	address := env("NATS_URL", nats.DefaultURL)
	name := "waybill-test-" + waybill.NewID()
	b, err := natsbroker.Open(t.Context(), natsbroker.Config{URL: address, Stream: name, SubjectPrefix: name + "."})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	conn, err := nats.Connect(address)
	must(t, err)
	t.Cleanup(conn.Close)
	streams, err := conn.JetStream()
	must(t, err)
	t.Cleanup(func() { streams.DeleteStream(name) })
	sub, err := conn.SubscribeSync(name + "." + odd().Topic)
	must(t, err)
	must(t, conn.Flush())
	for _, structured := range []bool{false, true} {
		publish(t, b, structured)
		m, err := sub.NextMsg(patience)
		must(t, err)
		headers := make(map[string]string)
		for name, values := range m.Header {
			value, err := url.PathUnescape(values[0]) // as the binding for NATS has it
			must(t, err)
			headers[name] = value
		}
		expect(t, NewMessage(NATS, headers, m.Header.Get("content-type"), m.Data), structured)
	}
	expectStructured(t, b, name, func(contentType string, body []byte) {
		must(t, conn.PublishMsg(&nats.Msg{Subject: name + "." + odd().Topic, Data: body, Header: nats.Header{"content-type": {contentType}}}))
	})
}
