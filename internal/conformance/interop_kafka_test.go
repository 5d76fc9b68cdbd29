package conformance

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/contract"
)

const kafkaScripts = "../../examples/interop/kafka/"

// runKafkaScript runs a program of another client and returns what it prints.
func runKafkaScript(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if strings.HasSuffix(name, ".mjs") {
		args = append([]string{"node", kafkaScripts + name}, args...)
	} else {
		args = append([]string{"sh", kafkaScripts + name}, args...)
	}
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		var said string
		if exit, ok := err.(*exec.ExitError); ok {
			said = string(exit.Stderr)
		}
		t.Fatalf("%s: %v (\"make services\" installs what it needs)\n%s", name, err, said)
	}
	return string(out)
}

// kafkaInterop returns a broker and where others reach it: host and port, and the topic's name.
func kafkaInterop(t *testing.T) (b *kafkabroker.Broker, server, topic string) {
	t.Helper()
	cfg := kafkaConfig(kafkaURL(t))
	b = kafkaOpen(t, cfg)
	server, _, _ = strings.Cut(strings.TrimPrefix(cfg.URL, "kafka://"), ",")
	return b, server, cfg.TopicPrefix + "t"
}

func kafkaInteropMessage() *waybill.Message {
	m := &waybill.Message{
		ID: "1", Type: "order.created", Source: "shop", Topic: "t", Key: "order-1", Tenant: "größe",
		ContentType: "application/json", Payload: []byte(`{"total":12}`), Headers: map[string]string{"x-user": "ann"},
	}
	m.Complete()
	return m
}

// checkKafkaHeaders compares what another client has read with kafkaInteropMessage.
func checkKafkaHeaders(t *testing.T, key, value string, headers map[string]string) {
	t.Helper()
	if key != "order-1" || value != `{"total":12}` {
		t.Errorf("key %q, value %q", key, value)
	}
	for name, want := range map[string]string{
		"ce_specversion": "1.0", "ce_id": "1", "ce_type": "order.created", "ce_source": "shop",
		"ce_tenant": "größe", "ce_partitionkey": "order-1", "content-type": "application/json", "x-user": "ann",
	} {
		if headers[name] != want {
			t.Errorf("header %s = %q, want %q", name, headers[name], want)
		}
	}
}

func TestInteropKafkaJS_Reads(t *testing.T) {
	t.Parallel()
	b, server, topic := kafkaInterop(t)
	kafkaSend(t, b, []contract.Outgoing{{Message: kafkaInteropMessage()}})
	var read struct {
		Key, Value string
		Headers    map[string]string
	}
	if err := json.Unmarshal([]byte(runKafkaScript(t, "read.mjs", server, topic, "interop")), &read); err != nil {
		t.Fatal(err)
	}
	checkKafkaHeaders(t, read.Key, read.Value, read.Headers)
}

func TestInteropKcat_Reads(t *testing.T) {
	t.Parallel()
	b, server, topic := kafkaInterop(t)
	kafkaSend(t, b, []contract.Outgoing{{Message: kafkaInteropMessage()}})
	var read struct {
		Key, Payload string
		Headers      []string // names and values in turn
	}
	if err := json.Unmarshal([]byte(runKafkaScript(t, "read.sh", server, topic)), &read); err != nil {
		t.Fatal(err)
	}
	headers := make(map[string]string)
	for i := 0; i+1 < len(read.Headers); i += 2 {
		headers[read.Headers[i]] = read.Headers[i+1]
	}
	checkKafkaHeaders(t, read.Key, read.Payload, headers)
}

// TestInteropKafkaJS_Publishes reads what kafkajs has published in binary and structured mode.
func TestInteropKafkaJS_Publishes(t *testing.T) {
	t.Parallel()
	b, server, topic := kafkaInterop(t)
	kafkaDeclare(t, b)
	runKafkaScript(t, "publish.mjs", server, topic)
	g := kafkaSubscribe(t, b, "t", 10)
	expectEvent(t, g.next(), waybill.Message{ID: "js-1", Source: "kafkajs", Tenant: "größe", Payload: []byte(`{"total":12}`)})
	expectEvent(t, g.next(), waybill.Message{ID: "js-2", Source: "kafkajs", Payload: []byte(`{"total":13}`)})
}

func TestInteropKcat_Publishes(t *testing.T) {
	t.Parallel()
	b, server, topic := kafkaInterop(t)
	kafkaDeclare(t, b)
	runKafkaScript(t, "publish.sh", server, topic)
	g := kafkaSubscribe(t, b, "t", 10)
	expectEvent(t, g.next(), waybill.Message{ID: "kcat-1", Source: "kcat", Payload: []byte(`{"total":12}`)})
}

// kafkaDeclare makes topic t.
func kafkaDeclare(t *testing.T, b *kafkabroker.Broker) {
	t.Helper()
	if _, err := b.Apply(t.Context(), broker.Wanted{Topics: []string{"t"}}); err != nil {
		t.Fatal(err)
	}
}

// expectEvent compares what the scripts set, and what they have in common, with want.
func expectEvent(t *testing.T, d contract.Delivery, want waybill.Message) {
	t.Helper()
	m, err := d.Message()
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != want.ID || m.Source != want.Source || m.Tenant != want.Tenant || string(m.Payload) != string(want.Payload) ||
		m.Type != "order.created" || m.Key != "order-1" || m.Topic != "t" || m.ContentType != "application/json" {
		t.Errorf("message %+v, want %+v with the type order.created and the key order-1", m, want)
	}
}
