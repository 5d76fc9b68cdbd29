package signalrbroker

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/philippseith/signalr"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/push"
)

// Meta is the second argument of a message, with CloudEvents names where they exist.
type Meta struct {
	ID            string            `json:"id"` // also sent by a client as its last event id
	Type          string            `json:"type"`
	Source        string            `json:"source,omitempty"`
	Topic         string            `json:"topic"`
	Subject       string            `json:"subject,omitempty"`
	Time          *time.Time        `json:"time,omitempty"`
	ContentType   string            `json:"datacontenttype,omitempty"`
	Base64        bool              `json:"base64,omitempty"` // the payload is in base64
	CorrelationID string            `json:"correlationid,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// send calls a method of the client and returns when its socket has taken the call.
func send(conn signalr.HubConnection, e push.Event) error {
	switch e.Kind {
	case push.ConnectedEvent:
		return conn.SendInvocation("", "connected", []any{e.Connection, e.ID})
	case push.ResetEvent:
		return conn.SendInvocation("", "reset", []any{e.Reason, e.ID})
	case push.MessageEvent:
		payload, inBase64 := argument(e.Message.Payload)
		return conn.SendInvocation("", e.Message.Type, []any{payload, metaOf(e.Message, inBase64)})
	}
	return nil // the library sends keep-alives itself
}

// argument returns a payload as the value of an argument.
func argument(payload []byte) (value any, inBase64 bool) {
	switch {
	case json.Valid(payload):
		return json.RawMessage(payload), false
	case utf8.Valid(payload):
		return string(payload), false
	}
	return base64.StdEncoding.EncodeToString(payload), true
}

func metaOf(m *waybill.Message, inBase64 bool) Meta {
	meta := Meta{
		ID: m.ID, Type: m.Type, Source: m.Source, Topic: m.Address(), Subject: m.Subject,
		ContentType: m.ContentType, Base64: inBase64, CorrelationID: m.CorrelationID, Headers: m.Headers,
	}
	if !m.Time.IsZero() {
		meta.Time = &m.Time
	}
	return meta
}
