package asbbroker

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func TestEncode_Structured(t *testing.T) {
	t.Parallel()
	m := waybill.Message{ID: "1", Type: "t", Source: "s", ContentType: "text/plain", Payload: []byte("ü"), Headers: map[string]string{"x-user": "ann"}}
	out := encode(contract.Outgoing{Message: &m, DedupID: "1", Structured: true}, false)
	want := `{"specversion":"1.0","id":"1","source":"s","type":"t","datacontenttype":"text/plain","data":"ü"}`
	if *out.ContentType != "application/cloudevents+json" || string(out.Body) != want {
		t.Errorf("%s of %s, want %s", out.Body, *out.ContentType, want)
	}
	if len(out.ApplicationProperties) != 1 || out.ApplicationProperties["x-user"] != "ann" || *out.Subject != "t" {
		t.Errorf("properties %v, subject %s, want the header and the type", out.ApplicationProperties, *out.Subject)
	}
}

func TestDecode_Structured(t *testing.T) {
	structured := "application/cloudevents+json; charset=utf-8"
	event := `{"specversion":"1.0","id":"1","source":"shop","type":"order.created","datacontenttype":"text/plain","data":"hello"}`
	for _, tc := range []struct {
		name       string
		body       string
		properties map[string]any
		id, data   string
		wrong      bool
	}{
		{name: "event", body: event, id: "1", data: "hello"},
		{name: "no event", body: `{}`, data: `{}`, wrong: true},
		{name: "binary mode comes first", body: event, properties: map[string]any{"cloudEvents:id": "2"}, id: "2", data: event},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := decode(&azservicebus.ReceivedMessage{
				Body: []byte(tc.body), ContentType: &structured, ApplicationProperties: tc.properties,
			}, "orders", "")
			if m.ID != tc.id || string(m.Payload) != tc.data || m.Topic != "orders" {
				t.Errorf("decode() = %+v with payload %q, want id %q, payload %q", m, m.Payload, tc.id, tc.data)
			}
			if waybill.IsPermanent(err) != tc.wrong || (err != nil) != tc.wrong {
				t.Errorf("decode() error = %v, want one: %v", err, tc.wrong)
			}
			if tc.name == "event" && m.ContentType != "text/plain" {
				t.Errorf("ContentType = %q, want that of the data", m.ContentType)
			}
		})
	}
}
