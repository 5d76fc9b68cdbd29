package cloudevents

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestParseStructured(t *testing.T) {
	t.Parallel()
	m := waybill.Message{Topic: "orders", Headers: map[string]string{"x-user": "ann"}}
	body := `{"specversion":"1.0","id":"Größe 1","type":"order.created@v2","source":"/shop","subject":"😀",` +
		`"time":"2026-02-03T04:05:06.789012+09:00","partitionkey":"k","tenant":"acme","dataschema":null,` +
		`"sampledrate":30,"debug":true,"datacontenttype":"application/vnd.shop+json","data": {"total": 12.10,  "n":1e400} }`
	if err := ParseStructured(&m, "application/CloudEvents+JSON; charset=UTF-8", []byte(body)); err != nil {
		t.Fatal(err)
	}
	want := waybill.Message{
		Topic: "orders", ID: "Größe 1", Type: "order.created@v2", Source: "/shop", Subject: "😀", Key: "k", Tenant: "acme",
		ContentType: "application/vnd.shop+json", Payload: []byte(`{"total": 12.10,  "n":1e400}`),
		Headers: map[string]string{"x-user": "ann", "sampledrate": "30", "debug": "true"},
	}
	if !m.Time.Equal(time.Date(2026, 2, 2, 19, 5, 6, 789_012_000, time.UTC)) {
		t.Errorf("Time = %v", m.Time)
	}
	m.Time = time.Time{}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("ParseStructured() = %+v, want %+v", m, want)
	}
}

func TestParseStructured_Data(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ members, contentType, payload string }{
		{`"data":"text"`, "application/json", `"text"`},
		{`"datacontenttype":"text/plain","data":"a\u0000\"b\" ü"`, "text/plain", "a\x00\"b\" ü"},
		{`"datacontenttype":"text/xml","data":{"not":"text"}`, "text/xml", `{"not":"text"}`},
		{`"datacontenttype":"image/png","data_base64":"/wD+"`, "image/png", "\xff\x00\xfe"},
		{`"data_base64":""`, "application/json", ""},
		{`"data":null`, "application/json", "null"},
		{`"tenant":"t"`, "application/json", ""},
	} {
		var m waybill.Message
		err := ParseStructured(&m, "application/cloudevents+json", []byte(`{"specversion":"1.0",`+c.members+`}`))
		if err != nil || m.ContentType != c.contentType || string(m.Payload) != c.payload {
			t.Errorf("%s: payload %q of %s, %v, want %q of %s", c.members, m.Payload, m.ContentType, err, c.payload, c.contentType)
		}
	}
}

func TestParseStructured_Refuses(t *testing.T) {
	t.Parallel()
	const known = "application/cloudevents+json"
	for _, c := range []struct{ contentType, body, want string }{
		{"application/cloudevents-batch+json", `[]`, "a batch of events is no message"},
		{"application/cloudevents+avro", `x`, "only application/cloudevents+json"},
		{known + `; charset`, `{}`, "malformed"},
		{known, `S3CR3T`, "no JSON object"},
		{known, `null`, "no JSON object"},
		{known, `["S3CR3T"]`, "no JSON object"},
		{known, `{"id":"1"}`, "specversion is missing"},
		{known, `{"specversion":"0.3","id":"1"}`, "specversion is not 1.0"},
		{known, `{"specversion":"1.0","id":"1","time":"S3CR3T"}`, "attribute time"},
		{known, `{"specversion":"1.0","id":"1","x":{"a":"S3CR3T"}}`, "attribute x"},
		{known, `{"specversion":"1.0","id":"1","data":1,"data_base64":"AA=="}`, "both"},
		{known, `{"specversion":"1.0","id":"1","data_base64":"S3CR3T!"}`, "not base64"},
		{known, `{"specversion":"1.0","id":"1","data_base64":17}`, "no text"},
	} {
		var m waybill.Message
		err := ParseStructured(&m, c.contentType, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "S3CR") {
			t.Errorf("%s, %s: %v, want an error with %q that quotes no value", c.contentType, c.body, err, c.want)
		}
		if strings.Contains(c.body, `"id":"1"`) && m.ID != "1" {
			t.Errorf("%s: id %q with the error, want what could be read", c.body, m.ID)
		}
	}
	var m waybill.Message
	if err := ParseStructured(&m, known, []byte("x")); err == nil || string(m.Payload) != "x" {
		t.Errorf("payload %q, %v, want the body with an error", m.Payload, err)
	}
}

func TestStructured(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"application/cloudevents+json": true, "Application/CloudEvents-batch+json; charset=utf-8": true,
		"application/json": false, "": false, "application/cloudevent": false,
	} {
		if got := Structured(contentType); got != want {
			t.Errorf("Structured(%q) = %v, want %v", contentType, got, want)
		}
	}
}
