package sqldb

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// MessageColumns are the columns of a message, in the order of [MessageRow.Dest].
const MessageColumns = `id, topic, direct, key, type, source, tenant, subject, payload, payload_bytes, ` +
	`content_type, data_schema, headers, correlation_id, causation_id, idempotency_key, ` +
	`trace_parent, trace_state, time, deliver_at, expires_at, enqueued_at`

// MessageColumnsOf returns [MessageColumns] with the alias of a table.
func MessageColumnsOf(alias string) string {
	return alias + "." + strings.ReplaceAll(MessageColumns, ", ", ", "+alias+".")
}

// MessageRow is a message as a table stores it. It may be scanned into repeatedly.
type MessageRow struct {
	m            waybill.Message
	words        words
	topic        string
	direct       bool
	payloadText  []byte
	payloadBytes []byte
	headers      sql.NullString
	time         Time
	deliverAt    Time
	expiresAt    Time
	enqueuedAt   Time
}

// Dest returns what to scan [MessageColumns] into.
func (r *MessageRow) Dest() []any {
	return []any{
		&r.m.ID, r.word(&r.topic), &r.direct, &r.m.Key, r.word(&r.m.Type), r.word(&r.m.Source), r.word(&r.m.Tenant), &r.m.Subject,
		&r.payloadText, &r.payloadBytes, r.word(&r.m.ContentType), &r.m.DataSchema, &r.headers,
		&r.m.CorrelationID, &r.m.CausationID, &r.m.IdempotencyKey, &r.m.TraceParent, &r.m.TraceState,
		&r.time, &r.deliverAt, &r.expiresAt, &r.enqueuedAt,
	}
}

func (r *MessageRow) word(value *string) *word { return &word{value, &r.words} }

// Message returns the message, which shares nothing with the row. If the row does not decode to a valid message, as one
// written by a foreign program may not, the error says why, and the message holds what
// could be read.
func (r *MessageRow) Message() (waybill.Message, error) {
	m := r.m
	if r.direct {
		m.To = r.topic
	} else {
		m.Topic = r.topic
	}
	m.Payload = r.payloadBytes
	if m.Payload == nil {
		m.Payload = r.payloadText
	}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	m.Time, m.DeliverAt, m.ExpiresAt = r.time.UTC(), r.deliverAt.UTC(), r.expiresAt.UTC()
	if m.Time.IsZero() {
		m.Time = r.enqueuedAt.UTC()
	}
	err := decodeHeaders(r.headers, &m.Headers)
	m.Complete()
	m.ID = r.m.ID // never one made up: it would be another one each time the row is read
	return m, errors.Join(err, m.Validate())
}

func decodeHeaders(column sql.NullString, headers *map[string]string) error {
	if !column.Valid || column.String == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(column.String), headers); err != nil {
		*headers = nil
		return fmt.Errorf("headers are not a JSON object of strings")
	}
	if len(*headers) == 0 {
		*headers = nil
	}
	return nil
}

// Headers returns the column value of a message's headers: a JSON object, or nil for none.
func Headers(m *waybill.Message) *string {
	if len(m.Headers) == 0 {
		return nil
	}
	b, err := json.Marshal(m.Headers)
	if err != nil { // cannot happen: the map holds strings only
		return nil
	}
	s := string(b)
	return &s
}

// Timestamp returns the column value of a time: nil for the zero time.
func Timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
