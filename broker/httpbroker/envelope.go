package httpbroker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

// Headers in the form that package http keeps them in.
const (
	contentType     = "Content-Type"
	attributePrefix = "Ce-"
	waybillPrefix   = "Waybill-" // of all headers of the envelope that are not attributes

	topicHeader       = waybillPrefix + "Topic"
	toHeader          = waybillPrefix + "To"
	contentTypeHeader = waybillPrefix + "Content-Type" // where Content-Type can't carry it
	headerPrefix      = waybillPrefix + "Header-"      // before the application's headers
	attemptHeader     = waybillPrefix + "Attempt"      // firstAttempt, or anything else
)

// firstAttempt says that no earlier attempt at the message may have arrived.
const firstAttempt = "first"

// opaque is the content type of a body whose own can't be a header, or would be taken for a
// whole event.
const opaque = "application/octet-stream"

var attributes = cloudevents.NewBinding(attributePrefix)

// encode returns the headers and the body that carry m in a content mode of the HTTP binding of
// CloudEvents.
func encode(m *waybill.Message, structured bool) (http.Header, []byte) {
	h := make(http.Header, 16+len(m.Headers))
	mode, body := attributes.Content(m, structured, func(name, value string) { set(h, name, value) })
	set(h, topicHeader, m.Topic)
	set(h, toHeader, m.To)
	switch {
	case structured:
		h.Set(contentType, mode)
	case m.ContentType == "":
	case plain(m.ContentType) && !cloudevents.Structured(m.ContentType):
		h.Set(contentType, m.ContentType)
	default:
		h.Set(contentType, opaque)
		set(h, contentTypeHeader, m.ContentType)
	}
	for name, value := range m.Headers {
		h.Set(headerPrefix+name, cloudevents.Escape(value))
	}
	return h, body
}

func set(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, cloudevents.Escape(value))
	}
}

// plain reports whether a header can carry s unchanged.
func plain(s string) bool {
	return s == strings.TrimSpace(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// ownPrefix begins the webhook-id of messages that this package has sent.
const ownPrefix = "waybill_"

// idFor returns the webhook-id of a message: a digest of the headers that carry it, and of the body if
// that carries more than the payload, and how often it was requeued, so that a receiver that remembers
// ids accepts a requeued message.
func idFor(h http.Header, body []byte, m contract.Outgoing) string {
	id := ownPrefix + digest(h)
	if m.Structured {
		id += fmt.Sprintf("_%x", sha256.Sum256(body))
	}
	return id + strings.ReplaceAll(strings.TrimPrefix(m.DedupID, m.ID), "#", "_")
}

// digest is a hash of the headers that carry a message.
func digest(h http.Header) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if carries(name) && len(h[name]) > 0 {
			fmt.Fprintf(sum, "%q\n", append([]string{name}, h[name]...))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// carries reports whether a header is part of the envelope.
func carries(name string) bool {
	return name == contentType || strings.HasPrefix(name, attributePrefix) ||
		strings.HasPrefix(name, waybillPrefix) && name != attemptHeader
}

// authentic reports whether the headers that carry a message are those that were sent with it,
// as far as its id, which is signed, can tell: that of another sender can't.
func authentic(h http.Header) bool {
	id, own := strings.CutPrefix(h.Get(HeaderID), ownPrefix)
	sum, _, _ := strings.Cut(id, "_")
	return !own || sum == digest(h)
}

// decode returns the message of a request whose signature is verified. With an error, which is
// permanent, it holds what could be read, the payload at least.
func decode(h http.Header, body []byte) (*waybill.Message, error) {
	m := &waybill.Message{Payload: body}
	var err error
	switch {
	case cloudevents.Structured(h.Get(contentType)):
		err = decodeStructured(m, h, body)
	case h.Get(attributePrefix+"Specversion") == "" && h.Get(topicHeader)+h.Get(toHeader) == "":
		m.ContentType, m.Type = h.Get(contentType), plainType(body)
	default:
		err = decodeBinary(m, h)
	}
	cloudevents.FillInKey(m)
	if !isOwn(h) {
		m.IdempotencyKey = h.Get(HeaderID) // it is signed, an attribute may not be
	}
	if m.Topic == "" && m.To == "" {
		m.Topic = m.Type
	}
	if err != nil {
		err = fmt.Errorf("httpbroker: decode envelope: %w", err)
	}
	return m, waybill.PermanentError(waybill.ReasonMalformed, err)
}

// decodeStructured reads an event, and the headers that only this package writes.
func decodeStructured(m *waybill.Message, h http.Header, body []byte) error {
	err := cloudevents.ParseStructured(m, h.Get(contentType), body)
	for name, values := range h {
		if isOwn(h) && strings.HasPrefix(name, waybillPrefix) {
			err = errors.Join(err, decodeHeader(m, name, strings.Join(values, ",")))
		}
	}
	return err
}

func isOwn(h http.Header) bool { return strings.HasPrefix(h.Get(HeaderID), ownPrefix) }

func decodeBinary(m *waybill.Message, h http.Header) error {
	var first error
	for name, values := range h {
		if err := decodeHeader(m, name, strings.Join(values, ",")); err != nil && first == nil {
			first = err
		}
	}
	if m.ContentType == "" {
		m.ContentType = h.Get(contentType)
	}
	if m.TraceParent == "" && plain(h.Get("Traceparent")) {
		m.TraceParent, m.TraceState = h.Get("Traceparent"), strings.ToValidUTF8(h.Get("Tracestate"), "\ufffd")
	}
	return first
}

// decodeHeader puts one header into m if it is part of the envelope.
func decodeHeader(m *waybill.Message, name, raw string) error {
	value, err := cloudevents.Unescape(raw)
	if err != nil {
		err = fmt.Errorf("header %s %w", name, err)
	}
	switch {
	case name == topicHeader:
		m.Topic = value
	case name == toHeader:
		m.To = value
	case name == contentTypeHeader:
		m.ContentType = value
	case strings.HasPrefix(name, headerPrefix):
		if m.Headers == nil {
			m.Headers = make(map[string]string)
		}
		m.Headers[strings.ToLower(strings.TrimPrefix(name, headerPrefix))] = value
	case strings.HasPrefix(name, attributePrefix):
		if wrong := cloudevents.Set(m, strings.ToLower(strings.TrimPrefix(name, attributePrefix)), value); wrong != nil {
			return wrong
		}
	default:
		return nil
	}
	return err
}

// plainType returns the member type of the payload that the Standard Webhooks convention
// recommends, "" if there is none.
func plainType(body []byte) string {
	var payload struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &payload) != nil {
		return ""
	}
	return payload.Type
}
