package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// foreignEvent is an event as the programs in examples/interop print and read it.
type foreignEvent struct {
	Attributes  map[string]string `json:"attributes"`
	Headers     map[string]string `json:"headers"`
	ContentType string            `json:"contentType"`
	Data        []byte            `json:"data"`
	Structured  bool              `json:"structured,omitempty"`
}

// oddEvents hold what is easily damaged on the way.
func oddEvents() []foreignEvent {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return []foreignEvent{
		{
			Attributes: map[string]string{
				"specversion": "1.0", "id": `Größe 1/2 %41 "x"`, "source": "https://shop.example/a b?c=d&e=ü", "type": "order.created@v2",
				"subject": "注文 😀 4711", "time": "2026-02-03T04:05:06.789012Z", "partitionkey": "key with  spaces", "tenant": "acme: west; 50%25",
				"correlationid": `c\1"`, "causationid": "c,2", "idempotencykey": "i;3", "dataschema": "https://shop.example/schema#v2",
				"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
				"expirytime": "9999-12-31T23:59:59Z",
			},
			Headers: map[string]string{"x-user": "ann", "x-list": "a: b; c, d = e"}, ContentType: `text/plain; charset="utf-8"`, Data: every,
		},
		{
			Attributes: map[string]string{"specversion": "1.0", "id": "2", "source": "s", "type": "t", "tenant": "default"},
			Headers:    map[string]string{}, ContentType: "application/json", Data: []byte("{\"total\": 12.10,\r\n \"name\": \"ü\\u0000\"}"),
		},
	}
}

// message returns the message that an event stands for.
func (e foreignEvent) message(t *testing.T, topic string) waybill.Message {
	t.Helper()
	a := e.Attributes
	moment := func(name string) time.Time {
		if a[name] == "" {
			return time.Time{}
		}
		at, err := time.Parse(time.RFC3339Nano, a[name])
		must(t, err)
		return at
	}
	return waybill.Message{
		ID: a["id"], Source: a["source"], Type: a["type"], Subject: a["subject"], Key: a["partitionkey"], Tenant: a["tenant"],
		CorrelationID: a["correlationid"], CausationID: a["causationid"], IdempotencyKey: a["idempotencykey"], DataSchema: a["dataschema"],
		TraceParent: a["traceparent"], TraceState: a["tracestate"], Time: moment("time"), ExpiresAt: moment("expirytime"),
		Topic: topic, Headers: e.Headers, ContentType: e.ContentType, Payload: e.Data,
	}
}

func (e foreignEvent) equal(other foreignEvent) bool {
	return maps.Equal(e.Attributes, other.Attributes) && maps.Equal(e.Headers, other.Headers) &&
		e.ContentType == other.ContentType && bytes.Equal(e.Data, other.Data)
}

// foreignProgram starts a program of examples/interop.
func foreignProgram(t *testing.T, script string, input io.Reader, args ...string) (lines *bufio.Scanner, wait func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	path, err := filepath.Abs(filepath.Join("../../examples/interop", script))
	must(t, err)
	cmd := exec.CommandContext(ctx, "node", append([]string{path}, args...)...)
	var complaints bytes.Buffer
	cmd.Stdin, cmd.Stderr = input, &complaints
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Fatalf("no node to run %s (%v); install it with: make services", script, err)
	}
	lines = bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return lines, func() {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v; if a package is missing: make services\n%s", script, err, complaints.Bytes())
		}
	}
}

// publishesToForeign has a program read what b publishes.
func publishesToForeign(t *testing.T, b broker.Broker, topic, script string, args ...string) {
	t.Helper()
	lines, wait := foreignProgram(t, script, nil, args...)
	if !lines.Scan() || lines.Text() != "ready" {
		wait()
		t.Fatalf("%s printed %q, want ready", script, lines.Text())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out []contract.Outgoing
	for _, e := range oddEvents() {
		m := e.message(t, topic)
		out = append(out, contract.Outgoing{Message: &m, DedupID: m.ID})
	}
	must(t, errors.Join(b.Publisher().Send(ctx, out)()...))
	for _, want := range oddEvents() {
		if !lines.Scan() {
			wait()
			t.Fatalf("%s ended too early", script)
		}
		var got foreignEvent
		must(t, json.Unmarshal(lines.Bytes(), &got))
		if !got.equal(want) {
			t.Errorf("%s has read\n%+v, want\n%+v", script, got, want)
		}
	}
	wait()
}

// readsFromForeign has a program publish what b's subscriber reads, in the binary mode and in the
// structured one.
func readsFromForeign(t *testing.T, b broker.Broker, topic, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan contract.Delivery, 100), make(chan error, 1)
	go func() {
		ended <- b.Subscriber(consumer.Subscription{Group: "interop-" + waybill.NewID(), Topics: []string{topic}}).
			Subscribe(ctx, 10, func(d contract.Delivery) { got <- d })
	}()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	awaitGroup(t, b, topic, got)
	var input bytes.Buffer
	events := oddEvents()
	for _, e := range oddEvents() {
		e.Structured = true
		events = append(events, e)
	}
	for _, e := range events {
		must(t, json.NewEncoder(&input).Encode(e))
	}
	_, wait := foreignProgram(t, script, &input, args...)
	wait()
	for i, e := range events {
		m := nextForeign(t, got)
		want := e.message(t, topic)
		if !sameMessage(m, &want) {
			t.Errorf("message %d arrived as\n%+v, want\n%+v", i, m, want)
		}
	}
}

// awaitGroup publishes until the group receives.
func awaitGroup(t *testing.T, b broker.Broker, topic string, got <-chan contract.Delivery) {
	t.Helper()
	waitFor(t, "the group receives", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		m := waybill.Message{Topic: topic, Type: "probe", Source: "test"}
		m.Complete()
		b.Publisher().Send(ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()
		select {
		case d := <-got:
			must(t, d.Ack(t.Context()))
			return true
		default:
			return false
		}
	})
}

// nextForeign returns the next message that is no probe.
func nextForeign(t *testing.T, got <-chan contract.Delivery) *waybill.Message {
	t.Helper()
	for {
		select {
		case d := <-got:
			m, err := d.Message()
			must(t, err)
			must(t, d.Ack(t.Context()))
			if m.Type != "probe" {
				return m
			}
		case <-time.After(patience):
			t.Fatalf("no message within %v", patience)
		}
	}
}

func sameMessage(got, want *waybill.Message) bool {
	a, b := *got, *want
	if !a.Time.Equal(b.Time) || !a.ExpiresAt.Equal(b.ExpiresAt) || !bytes.Equal(a.Payload, b.Payload) || !maps.Equal(a.Headers, b.Headers) {
		return false
	}
	text := func(m waybill.Message) string {
		m.Time, m.ExpiresAt, m.Payload, m.Headers = time.Time{}, time.Time{}, nil, nil
		s, err := json.Marshal(m)
		if err != nil {
			return err.Error()
		}
		return string(s)
	}
	return text(a) == text(b)
}

func TestInterop_NATS(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	b := natsOpen(t, cfg)
	publishesToForeign(t, b, "odd", "nats/read.mjs", cfg.URL, cfg.SubjectPrefix+"odd", "2")
	readsFromForeign(t, b, "in", "nats/publish.mjs", cfg.URL, cfg.SubjectPrefix+"in")
}

func TestInterop_RabbitMQ(t *testing.T) {
	t.Parallel()
	r := newRabbit(t)
	b := r.open(t, rabbitbroker.Config{})
	publishesToForeign(t, b, "odd", "rabbitmq/read.mjs", rabbitURL(), r.exchange, "odd", "2")
	readsFromForeign(t, b, "in", "rabbitmq/publish.mjs", rabbitURL(), r.exchange, "in")
}
