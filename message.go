package waybill

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultTenant is the tenant of a message that names none.
const DefaultTenant = "default"

// Message is the envelope that travels from a business transaction to a handler. On the
// wire it is a CloudEvents 1.0 event; docs/envelope.md maps each field to its attribute.
//
// A message is either published to a Topic (every subscribed consumer group gets it) or
// sent To one destination (one consumer group gets it). Exactly one of the two is set.
type Message struct {
	// ID identifies the message, per Source, over every attempt to publish it. It is what
	// an inbox recognises a duplicate by unless IdempotencyKey is set. Optional: outbox
	// fills in a UUID version 7.
	ID string

	// Type is the logical name of what happened, such as "order.created", with a suffix "@v2" and so on
	// from the second version on. Never a Go type name. Optional: the topic.
	Type string

	// Source names the service that produced the message. Optional: outbox.Config.Source.
	Source string

	// Topic is where the message is published. Required unless To is set.
	Topic string

	// To is the one destination that the message is sent to. Required unless Topic is set.
	To string

	// Key is the ordering key: messages with the same Topic (or To) and Key are published in the order
	// of their enqueues. Optional: without a key there is no order.
	Key string

	// Subject identifies what in Source the message is about, such as an entity's id. Optional.
	Subject string

	// Tenant is part of every inbox key. Optional: [DefaultTenant].
	Tenant string

	// Payload is carried byte for byte. May be empty.
	Payload []byte

	// ContentType is the media type of Payload. Optional: "application/json".
	ContentType string

	// DataSchema is a URI of the schema that Payload follows. Optional.
	DataSchema string

	// Headers are the application's own. Names are lower-case ASCII letters, digits, '-',
	// '_' and '.'; [ReservedHeader] reports which names are reserved.
	Headers map[string]string

	// CorrelationID is shared by all messages of one business flow. Optional; never used to
	// recognise duplicates.
	CorrelationID string

	// CausationID is the ID of the message that led to this one. Optional.
	CausationID string

	// IdempotencyKey replaces ID in the inbox key. Optional.
	IdempotencyKey string

	// TraceParent and TraceState are the W3C trace context of the enqueue. Optional.
	TraceParent, TraceState string

	// Time is when the event happened. Optional: the time of the enqueue by the database's
	// clock. Kept to the microsecond.
	Time time.Time

	// DeliverAt is the earliest time to publish the message. Optional: at once.
	DeliverAt time.Time

	// ExpiresAt is when the message expires. A relay does not publish an expired message but
	// dead-letters it. Optional: never.
	ExpiresAt time.Time
}

// NewID returns a new message id, a UUID version 7.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Address returns Topic or To, whichever is set.
func (m *Message) Address() string {
	if m.To != "" {
		return m.To
	}
	return m.Topic
}

// DedupKey returns what an inbox recognises the message by: IdempotencyKey, else ID.
func (m *Message) DedupKey() string {
	if m.IdempotencyKey != "" {
		return m.IdempotencyKey
	}
	return m.ID
}

// Alias returns the logical type without its version: "order.created" for "order.created@v2".
func (m *Message) Alias() string { return withoutVersion(m.Type) }

// Derive returns a message caused by m: same tenant, m's correlation id (m's ID when it
// has none), m's ID as causation id, and m's trace context. The caller sets the rest.
func (m *Message) Derive() Message {
	d := Message{
		Tenant:        m.Tenant,
		CorrelationID: m.CorrelationID,
		CausationID:   m.ID,
		TraceParent:   m.TraceParent,
		TraceState:    m.TraceState,
	}
	if d.CorrelationID == "" {
		d.CorrelationID = m.ID
	}
	return d
}

// Clone returns a copy that shares nothing with m but the bytes of Payload.
func (m *Message) Clone() Message {
	c := *m
	c.Headers = maps.Clone(m.Headers)
	return c
}

// Complete fills in what is optional and has a default: ID, Type, Tenant, ContentType.
func (m *Message) Complete() {
	if m.ID == "" {
		m.ID = NewID()
	}
	if m.Type == "" {
		m.Type = m.Address()
	}
	if m.Tenant == "" {
		m.Tenant = DefaultTenant
	}
	if m.ContentType == "" {
		m.ContentType = "application/json"
	}
}

// Validate checks a complete message against the limits and returns an [*InvalidError] that names
// the first invalid field, or nil.
func (m *Message) Validate() error {
	switch {
	case m.Topic == "" && m.To == "":
		return invalidf("Topic", "either Topic or To is required")
	case m.Topic != "" && m.To != "":
		return invalidf("To", "Topic is set as well; a message is published or sent, not both")
	case m.ID == "":
		return invalidf("ID", "is required")
	case m.Type == "":
		return invalidf("Type", "is required")
	}
	for i := range textLimits { // in place: this is on the path of each message
		f := &textLimits[i]
		if err := validText(f.name, *f.at(m), f.limit); err != nil {
			return err
		}
	}
	if len(m.Payload) > MaxPayloadLen {
		return invalidf("Payload", "has %d bytes, the limit is %d", len(m.Payload), MaxPayloadLen)
	}
	if err := m.validTimes(); err != nil {
		return err
	}
	return validHeaders(m.Headers)
}

// textField is one text of a message, by name, with its limit.
type textField struct {
	name, value string
	limit       int
	at          func(*Message) *string
}

func (f textField) put(m *Message, value string) { *f.at(m) = value }

func (m *Message) textFields() [len(textLimits)]textField {
	fields := textLimits
	for i := range fields {
		fields[i].value = *fields[i].at(m)
	}
	return fields
}

// Topic and To come before Type, which defaults to them: the error must name the field that the
// caller set.
var textLimits = [...]textField{
	{name: "ID", limit: MaxIDLen, at: func(m *Message) *string { return &m.ID }},
	{name: "Topic", limit: MaxTopicLen, at: func(m *Message) *string { return &m.Topic }},
	{name: "To", limit: MaxTopicLen, at: func(m *Message) *string { return &m.To }},
	{name: "Type", limit: MaxTypeLen, at: func(m *Message) *string { return &m.Type }},
	{name: "Source", limit: MaxSourceLen, at: func(m *Message) *string { return &m.Source }},
	{name: "Key", limit: MaxKeyLen, at: func(m *Message) *string { return &m.Key }},
	{name: "Subject", limit: MaxSubjectLen, at: func(m *Message) *string { return &m.Subject }},
	{name: "Tenant", limit: MaxTenantLen, at: func(m *Message) *string { return &m.Tenant }},
	{name: "ContentType", limit: MaxURILen, at: func(m *Message) *string { return &m.ContentType }},
	{name: "DataSchema", limit: MaxURILen, at: func(m *Message) *string { return &m.DataSchema }},
	{name: "CorrelationID", limit: MaxIDLen, at: func(m *Message) *string { return &m.CorrelationID }},
	{name: "CausationID", limit: MaxIDLen, at: func(m *Message) *string { return &m.CausationID }},
	{name: "IdempotencyKey", limit: MaxIDLen, at: func(m *Message) *string { return &m.IdempotencyKey }},
	{name: "TraceParent", limit: MaxTraceLen, at: func(m *Message) *string { return &m.TraceParent }},
	{name: "TraceState", limit: MaxTraceLen, at: func(m *Message) *string { return &m.TraceState }},
}

// validTimes keeps times within what every store and RFC 3339 can hold.
func (m *Message) validTimes() error {
	for _, f := range []struct {
		name string
		t    time.Time
	}{{"Time", m.Time}, {"DeliverAt", m.DeliverAt}, {"ExpiresAt", m.ExpiresAt}} {
		if y := f.t.Year(); !f.t.IsZero() && (y < 1970 || y > 9999) {
			return invalidf(f.name, "has the year %d, the range is 1970 to 9999", y)
		}
	}
	if !m.DeliverAt.IsZero() && !m.ExpiresAt.IsZero() && !m.DeliverAt.Before(m.ExpiresAt) {
		return invalidf("ExpiresAt", "is not after DeliverAt, so the message could never be published")
	}
	return nil
}

func validText(field, s string, limit int) error {
	if len(s) > limit {
		return invalidf(field, "has %d bytes, the limit is %d", len(s), limit)
	}
	if isPlain(s) {
		return nil
	}
	if !utf8.ValidString(s) {
		return invalidf(field, "is not valid UTF-8")
	}
	if i := strings.IndexFunc(s, isControl); i >= 0 {
		return invalidf(field, "has a control character at byte %d", i)
	}
	return nil
}

// isPlain reports whether s is printable ASCII, as nearly every text is.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func isControl(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }

func validHeaders(headers map[string]string) error {
	if len(headers) > MaxHeaders {
		return invalidf("Headers", "has %d entries, the limit is %d", len(headers), MaxHeaders)
	}
	total := 0
	for name, value := range headers {
		if err := validHeaderName(name); err != nil {
			return err
		}
		if err := validText("Headers["+name+"]", value, MaxHeadersLen); err != nil {
			return err
		}
		total += len(name) + len(value)
	}
	if total > MaxHeadersLen {
		return invalidf("Headers", "have %d bytes in all, the limit is %d", total, MaxHeadersLen)
	}
	return nil
}

func validHeaderName(name string) error {
	if name == "" {
		return invalidf("Headers", "has an empty name")
	}
	if len(name) > maxHeaderNameLen {
		return invalidf("Headers", "has a name of %d bytes, the limit is %d", len(name), maxHeaderNameLen)
	}
	for i := range len(name) {
		if c := name[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return invalidf("Headers", "has a name with the byte %q; lower-case letters, digits, '-', '_' and '.' are allowed", c)
		}
	}
	if ReservedHeader(name) {
		return invalidf("Headers["+name+"]", "the name is reserved for the envelope")
	}
	return nil
}

// ReservedHeader reports whether a header name belongs to the envelope: the CloudEvents
// prefixes of the protocols, and the names that brokers and this project use themselves. The
// headers of a published dead letter, waybill-dead-…, do not, nor does waybill-reply-to, which
// package request writes: they arrive as written.
func ReservedHeader(name string) bool {
	if strings.HasPrefix(name, "waybill-dead-") || name == "waybill-reply-to" {
		return false
	}
	for _, prefix := range [...]string{
		"ce-", "ce_", "cloudevents", "waybill-", "nats-", // envelopes, ours and the brokers'
		"x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count", // written by RabbitMQ
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "content-type", "traceparent", "tracestate":
		return true
	}
	return false
}

// Storable returns a copy of a message that fails [Message.Validate] in a form that any
// store can keep: texts are cut to their limits and stripped of what is not UTF-8 text, headers
// that are not valid are dropped, the payload stays as it is. It is for dead letters.
func (m *Message) Storable() Message {
	c := m.Clone()
	for _, f := range c.textFields() {
		f.put(&c, storableText(f.value, f.limit))
	}
	for name, value := range c.Headers {
		if validHeaders(map[string]string{name: value}) != nil {
			delete(c.Headers, name)
		}
	}
	if validHeaders(c.Headers) != nil { // together too many or too long
		c.Headers = nil
	}
	for _, t := range []*time.Time{&c.Time, &c.DeliverAt, &c.ExpiresAt} {
		if y := t.Year(); y < 1970 || y > 9999 {
			*t = time.Time{}
		}
	}
	return c
}

func storableText(s string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if isControl(r) {
			return utf8.RuneError
		}
		return r
	}, s)
	return strings.ToValidUTF8(clean[:min(len(clean), limit)], "") // the cut may have split a rune
}
