package rabbitbroker

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const limit = 10
	long := strings.Repeat("x", 256)
	for _, test := range []struct {
		name   string
		m      waybill.Message
		reason waybill.Reason
	}{
		{"neither topic nor destination", waybill.Message{}, waybill.ReasonMalformed},
		{"both", waybill.Message{Topic: "t", To: "q"}, waybill.ReasonMalformed},
		{"long topic", waybill.Message{Topic: long}, waybill.ReasonMalformed},
		{"long destination", waybill.Message{To: long}, waybill.ReasonMalformed},
		{"long id", waybill.Message{Topic: "t", ID: long}, waybill.ReasonMalformed},
		{"long type", waybill.Message{Topic: "t", Type: long}, waybill.ReasonMalformed},
		{"long source", waybill.Message{Topic: "t", Source: long}, waybill.ReasonMalformed},
		{"long correlation id", waybill.Message{Topic: "t", CorrelationID: long}, waybill.ReasonMalformed},
		{"long header", waybill.Message{Topic: "t", Headers: map[string]string{long: ""}}, waybill.ReasonMalformed},
		{"header of ours", waybill.Message{Topic: "t", Headers: map[string]string{"waybill-seq": ""}}, waybill.ReasonMalformed},
		{"attribute as header", waybill.Message{Topic: "t", Headers: map[string]string{"cloudEvents:id": ""}}, waybill.ReasonMalformed},
		{"header that routes", waybill.Message{Topic: "t", Headers: map[string]string{"BCC": ""}}, waybill.ReasonMalformed},
		{"payload above the limit", waybill.Message{Topic: "t", Payload: make([]byte, limit+1)}, waybill.ReasonTooLarge},
	} {
		if err := check(&test.m, limit); !waybill.IsPermanent(err) || waybill.ReasonOf(err) != test.reason {
			t.Errorf("%s: check() = %v, want permanent, %s", test.name, err, test.reason)
		}
	}
	fits := waybill.Message{Topic: "t", ID: long[1:], Headers: map[string]string{"cc": ""}, Payload: make([]byte, limit)}
	if err := check(&fits, limit); err != nil {
		t.Errorf("check() = %v for a message that fits", err)
	}
}

func TestDecode_Foreign(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 0).UTC()
	got, err := decode(&amqp.Delivery{
		Exchange: "theirs", RoutingKey: "t", MessageId: "1", Type: "foreign", AppId: "app", CorrelationId: "c",
		ContentType: "text/plain", ContentEncoding: "gzip", Timestamp: at, Body: []byte("x"),
		Headers: amqp.Table{"traceparent": "00-aa", "Retries": int32(3), "x-death": []any{}, "x-first-death-queue": "q"},
	})
	want := &waybill.Message{
		Topic: "t", ID: "1", Type: "foreign", Source: "app", CorrelationID: "c", ContentType: "text/plain",
		Time: at, Payload: []byte("x"), TraceParent: "00-aa",
		Headers: map[string]string{"retries": "3", "content-encoding": "gzip"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decode() = %+v, %v, want %+v", got, err, want)
	}
}

func TestDecode_Prefixes(t *testing.T) {
	t.Parallel()
	for range 20 { // the order of a map differs
		m, err := decode(&amqp.Delivery{MessageId: "property", Headers: amqp.Table{
			"ce-id": "1", "cloudEvents_id": "2", "cloudEvents:id": "3",
			"ce-subject": "s", "cloudEvents_Type": "t", "ce-extension": "e", "cloudEvents:datacontenttype": "a/b",
		}})
		if err != nil || m.ID != "3" || m.Subject != "s" || m.Type != "t" || m.Headers["extension"] != "e" || m.ContentType != "a/b" {
			t.Fatalf("decode() = %+v, %v", m, err)
		}
	}
}

func TestDecode_Address(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		d         amqp.Delivery
		topic, to string
	}{
		{"published", amqp.Delivery{Exchange: "e", RoutingKey: "t"}, "t", ""},
		{"sent", amqp.Delivery{RoutingKey: "q"}, "", "q"},
		{"published and retried", amqp.Delivery{RoutingKey: "q", Headers: amqp.Table{exchangeHeader: "e", routingKeyHeader: "t"}}, "t", ""},
		{"sent and retried", amqp.Delivery{RoutingKey: "q", Headers: amqp.Table{exchangeHeader: "", routingKeyHeader: "q"}}, "", "q"},
	} {
		m, err := decode(&test.d)
		if err != nil || m.Topic != test.topic || m.To != test.to {
			t.Errorf("%s: Topic %q, To %q, %v, want %q, %q", test.name, m.Topic, m.To, err, test.topic, test.to)
		}
	}
}

func TestDecode_Malformed(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]amqp.Delivery{
		"time":           {Headers: amqp.Table{"cloudEvents:time": "s3cret"}},
		"specversion":    {Headers: amqp.Table{"cloudEvents:specversion": "s3cret"}},
		"no text":        {Headers: amqp.Table{"cloudEvents:id": "\xffs3cret"}},
		"NUL":            {Headers: amqp.Table{"cloudEvents:id": "s3cret\x00"}},
		"no text in id":  {MessageId: "\xffs3cret"},
		"no text at all": {Type: "\x00", AppId: "s3cret\xff"},
	} {
		d.Body = []byte("payload")
		m, err := decode(&d)
		if !waybill.IsPermanent(err) || waybill.ReasonOf(err) != waybill.ReasonMalformed {
			t.Errorf("%s: decode() = %v, want permanent, malformed", name, err)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") || m.ID != "" || string(m.Payload) != "payload" {
			t.Errorf("%s: decode() = %+v, %v, want the payload and no values in the error", name, m, err)
		}
	}
}

func TestDecode_TimestampOutOfRange(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.UnixMilli(1700000000000 * 1000), time.Unix(math.MaxInt64, 0), time.Unix(-1e12, 0)} {
		if m, err := decode(&amqp.Delivery{Timestamp: at}); err != nil || !m.Time.IsZero() {
			t.Errorf("decode() = %v, %v for %v, want no time", m.Time, err, at.Unix())
		}
	}
}

func TestFieldText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value any
		want  string
	}{
		{nil, ""}, {"ü", "ü"}, {true, "true"}, {byte(7), "7"}, {int8(-1), "-1"}, {int64(1 << 40), "1099511627776"},
		{float32(0.1), "0.1"}, {0.1, "0.1"}, {math.Inf(1), "+Inf"}, {[]byte("text"), "text"}, {[]byte{0xff}, "/w=="},
		{time.Unix(0, 0), "1970-01-01T00:00:00Z"},
		{amqp.Decimal{Value: 12345, Scale: 2}, "123.45"}, {amqp.Decimal{Value: -5, Scale: 3}, "-0.005"},
		{amqp.Decimal{Value: 7}, "7"}, {amqp.Decimal{Value: math.MinInt32, Scale: 1}, "-214748364.8"},
		{[]any{"a", int32(1), []byte{0xff}, math.NaN()}, `["a",1,"/w==","NaN"]`},
		{amqp.Table{"b": amqp.Table{"c": nil}, "a": false}, `{"a":false,"b":{"c":null}}`},
	} {
		if got := fieldText(test.value); got != test.want {
			t.Errorf("fieldText(%#v) = %q, want %q", test.value, got, test.want)
		}
	}
}

func TestHeaderFrameSize(t *testing.T) {
	t.Parallel()
	p := encode(&waybill.Message{ID: strings.Repeat("x", 255), Headers: map[string]string{"h": strings.Repeat("x", 5000)}}, false)
	p.Headers["table"] = amqp.Table{"bytes": make([]byte, 3000), "list": []any{strings.Repeat("x", 2000), int64(1)}}
	if got := headerFrameSize(&p); got < 10_600 || got > 11_200 {
		t.Errorf("headerFrameSize() = %d, want about 10,800", got)
	}
}

func TestSizeLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cause *amqp.Error
		limit int
		ok    bool
	}{
		{nil, 0, false},
		{&amqp.Error{Code: 406, Reason: "PRECONDITION_FAILED - message size 134217729 is larger than configured max size 134217728"}, 134217728, true},
		{&amqp.Error{Code: 406, Reason: "PRECONDITION_FAILED - unknown delivery tag 1"}, 0, false},
		{&amqp.Error{Code: 404, Reason: "message size 2 is larger than configured max size 1"}, 0, false},
	} {
		if limit, ok := sizeLimit(test.cause); limit != test.limit || ok != test.ok {
			t.Errorf("sizeLimit(%v) = %d, %v, want %d, %v", test.cause, limit, ok, test.limit, test.ok)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("cloudEvents:time", "x", []byte("x"), int64(0), "id", uint8(0))
	f.Add("ce-", "\xff", []byte{0xff}, int64(-1), "\x00", uint8(1))
	f.Add("x-death", "q", []byte{}, int64(math.MaxInt64), "", uint8(2))
	f.Add("waybill-retry-left", "", []byte{}, int64(math.MinInt64), "", uint8(3))
	f.Fuzz(func(t *testing.T, name, text string, body []byte, n int64, property string, kind uint8) {
		values := []any{text, body, n, amqp.Table{text: []any{n, body}}, amqp.Decimal{Scale: kind, Value: int32(n)},
			time.Unix(n, 0), math.Float64frombits(uint64(n)), nil, []any{amqp.Table{"queue": text}}, int32(n)}
		d := &amqp.Delivery{
			Headers: amqp.Table{name: values[int(kind)%len(values)], name + text: text, "ce-" + text: n},
			Body:    body, MessageId: property, Type: text, AppId: name, ContentType: text, ContentEncoding: property,
			Timestamp: time.Unix(n, 0), Exchange: name, RoutingKey: property,
		}
		m, err := decode(d)
		if m == nil || string(m.Payload) != string(body) {
			t.Fatal("decode() lost the payload")
		}
		if err != nil && !waybill.IsPermanent(err) {
			t.Errorf("decode() = %v of kind %v", err, waybill.KindOf(err))
		}
		again, err2 := decode(d)
		if !reflect.DeepEqual(m, again) || !errors.Is(err2, err) && (err == nil) != (err2 == nil) {
			t.Errorf("decode() = %+v, %v, then %+v, %v", m, err, again, err2)
		}
		for key, value := range m.Headers {
			if !cloudevents.Storable(strings.ReplaceAll(key+value, "\x00", "")) {
				t.Errorf("header %q = %q is not text", key, value)
			}
		}
		x := &delivery{amqp: *d, queue: text}
		if left := x.left(); left < 0 {
			t.Errorf("left() = %v", left)
		}
		x.copy(x.retries(), 0)
	})
}

func TestEncode_Structured(t *testing.T) {
	t.Parallel()
	m := &waybill.Message{ID: "1", Type: "t", Source: "s", ContentType: strings.Repeat("x", 300), Payload: []byte("ü"), Headers: map[string]string{"x-user": "ann"}}
	p := encode(m, true)
	want := amqp.Publishing{
		ContentType: "application/cloudevents+json", MessageId: "1", Type: "t", AppId: "s", DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-user": "ann"},
		Body: []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","datacontenttype":"` + m.ContentType + `","data_base64":"w7w="}`),
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("encode() = %+v, want %+v", p, want)
	}
}

func TestDecode_Structured(t *testing.T) {
	t.Parallel()
	d := &amqp.Delivery{
		RoutingKey: "t", Exchange: "x", ContentType: "application/cloudevents+json; charset=utf-8", CorrelationId: "c",
		Body:    []byte(`{"specversion":"1.0","id":"1","type":"a","source":"/x","datacontenttype":"text/plain","data":"a b"}`),
		Headers: amqp.Table{"x-user": "ann"},
	}
	m, err := decode(d)
	if err != nil || m.ID != "1" || m.Type != "a" || m.Source != "/x" || m.Topic != "t" || m.CorrelationID != "c" ||
		m.ContentType != "text/plain" || string(m.Payload) != "a b" || m.Headers["x-user"] != "ann" {
		t.Errorf("decode() = %+v, %v, want the event in the body", m, err)
	}
	d.Headers["cloudEvents:id"] = "2" // binary, with a payload that is an event
	if m, err := decode(d); err != nil || m.ID != "2" || string(m.Payload) != string(d.Body) || m.ContentType != d.ContentType {
		t.Errorf("decode() = %+v, %v, want the body as the payload, next to attributes in headers", m, err)
	}
	delete(d.Headers, "cloudEvents:id")
	d.Body = []byte("x")
	if m, err := decode(d); waybill.ReasonOf(err) != waybill.ReasonMalformed || string(m.Payload) != "x" {
		t.Errorf("decode() = %+v, %v, want malformed with the body as the payload", m, err)
	}
}
