package waybill

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

func valid() Message {
	m := Message{Topic: "orders"}
	m.Complete()
	return m
}

// TestValidate_NamesTheTopic has a topic that is too long, which is the type as well.
func TestValidate_NamesTheTopic(t *testing.T) {
	t.Parallel()
	for field, m := range map[string]Message{
		"Topic": {Topic: strings.Repeat("x", MaxTypeLen+1)},
		"To":    {To: strings.Repeat("x", MaxTypeLen+1)},
	} {
		m.Complete()
		var invalid *InvalidError
		if err := m.Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("Validate() = %v, want an error about %s", err, field)
		}
	}
}

func TestValidate_LimitsAndOneBeyond(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("x", n) }
	headers := func(n, size int) map[string]string {
		h := map[string]string{}
		for i := range n {
			h[fmt.Sprintf("h%02d", i)] = text(size)
		}
		return h
	}
	for _, tt := range []struct {
		field  string
		limit  int
		change func(m *Message, n int)
	}{
		{"ID", MaxIDLen, func(m *Message, n int) { m.ID = text(n) }},
		{"Type", MaxTypeLen, func(m *Message, n int) { m.Type = text(n) }},
		{"Source", MaxSourceLen, func(m *Message, n int) { m.Source = text(n) }},
		{"Topic", MaxTopicLen, func(m *Message, n int) { m.Topic = text(n) }},
		{"To", MaxTopicLen, func(m *Message, n int) { m.Topic, m.To = "", text(n) }},
		{"Key", MaxKeyLen, func(m *Message, n int) { m.Key = text(n) }},
		{"Subject", MaxSubjectLen, func(m *Message, n int) { m.Subject = text(n) }},
		{"Tenant", MaxTenantLen, func(m *Message, n int) { m.Tenant = text(n) }},
		{"ContentType", MaxURILen, func(m *Message, n int) { m.ContentType = text(n) }},
		{"DataSchema", MaxURILen, func(m *Message, n int) { m.DataSchema = text(n) }},
		{"CorrelationID", MaxIDLen, func(m *Message, n int) { m.CorrelationID = text(n) }},
		{"CausationID", MaxIDLen, func(m *Message, n int) { m.CausationID = text(n) }},
		{"IdempotencyKey", MaxIDLen, func(m *Message, n int) { m.IdempotencyKey = text(n) }},
		{"TraceParent", MaxTraceLen, func(m *Message, n int) { m.TraceParent = text(n) }},
		{"TraceState", MaxTraceLen, func(m *Message, n int) { m.TraceState = text(n) }},
		{"Payload", MaxPayloadLen, func(m *Message, n int) { m.Payload = make([]byte, n) }},
		{"Headers", MaxHeaders, func(m *Message, n int) { m.Headers = headers(n, 1) }},
		{"Headers", maxHeaderNameLen, func(m *Message, n int) { m.Headers = map[string]string{text(n): ""} }},
		{"Headers", MaxHeadersLen, func(m *Message, n int) { m.Headers = map[string]string{"a": text(n / 2), "b": text(n - n/2 - 2)} }},
	} {
		m := valid()
		tt.change(&m, tt.limit)
		if err := m.Validate(); err != nil {
			t.Errorf("%s at its limit: %v", tt.field, err)
		}
		tt.change(&m, tt.limit+1)
		var invalid *InvalidError
		if err := m.Validate(); !errors.As(err, &invalid) || invalid.Field != tt.field {
			t.Errorf("%s beyond its limit of %d: %v, want an InvalidError that names it", tt.field, tt.limit, err)
		} else if !strings.Contains(invalid.Reason, fmt.Sprint(tt.limit)) {
			t.Errorf("%s beyond its limit: %q does not name %d", tt.field, invalid.Reason, tt.limit)
		}
	}
}

func TestValidate_ReservedHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ce-id", "ce_id", "waybill-seq", "nats-msg-id", "x-death", "traceparent", "content-type", "Upper", "ümlaut", "a b", ""} {
		m := valid()
		m.Headers = map[string]string{name: "x"}
		if m.Validate() == nil {
			t.Errorf("header %q is accepted", name)
		}
	}
	m := valid()
	m.Headers = map[string]string{"x-user.id_2": "Zoë ✓", "waybill-dead-reason": "rejected", "waybill-reply-to": "waybill-reply-1"}
	if err := m.Validate(); err != nil {
		t.Errorf("an ordinary header is refused: %v", err)
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	m := Message{To: "billing"}
	m.Complete()
	if m.ID == "" || m.Type != "billing" || m.Tenant != DefaultTenant || m.ContentType != "application/json" {
		t.Errorf("Complete() = %+v", m)
	}
	before := m
	m.Complete()
	if m.ID != before.ID {
		t.Error("Complete() changed an id that was there")
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	m := Message{ID: "1", CorrelationID: "flow", Tenant: "acme", TraceParent: "tp", TraceState: "ts", Topic: "orders"}
	d := m.Derive()
	if d.CorrelationID != "flow" || d.CausationID != "1" || d.Tenant != "acme" || d.TraceParent != "tp" || d.TraceState != "ts" {
		t.Errorf("Derive() = %+v", d)
	}
	if d.ID != "" || d.Topic != "" {
		t.Errorf("Derive() took over what belongs to the cause: %+v", d)
	}
}

// FuzzStorable: whatever comes in, what comes out passes Validate and keeps its payload.
func FuzzStorable(f *testing.F) {
	f.Add("id", "topic", "k\x00ey", "\xff", "h", "v", int64(0))
	f.Add(strings.Repeat("ü", 300), "", "", "", "Bad Name", "\n", int64(1<<62))
	f.Fuzz(func(t *testing.T, id, topic, key, typ, header, value string, at int64) {
		m := Message{ID: id, Topic: topic, Key: key, Type: typ, Payload: []byte(value), Headers: map[string]string{header: value}, Time: time.Unix(at, 0)}
		s := m.Storable()
		if string(s.Payload) != value {
			t.Fatal("the payload changed")
		}
		if s.Topic == "" {
			s.Topic = "t"
		}
		s.Complete()
		if err := s.Validate(); err != nil {
			t.Fatalf("Storable() = %+v, which is not valid: %v", s, err)
		}
		if m.Validate() == nil && (s.ID != m.ID || !maps.Equal(s.Headers, m.Headers)) {
			t.Fatal("Storable() changed a valid message")
		}
	})
}
