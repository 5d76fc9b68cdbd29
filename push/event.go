package push

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// Kind is the kind of an event.
type Kind int

const (
	// MessageEvent carries a message.
	MessageEvent Kind = iota

	// ConnectedEvent is the first event: it carries the id of the connection.
	ConnectedEvent

	// ResetEvent says that the client may have missed messages and cannot catch up: it must reload what
	// it shows. What follows is complete again.
	ResetEvent

	// IdleEvent is a heartbeat, after a time without other events.
	IdleEvent
)

// Event is an event that is sent to a client. It is read-only.
type Event struct {
	Kind Kind

	// ID is what the client sends as its last event id when it reconnects: the message's ID, and for a
	// ConnectedEvent or ResetEvent the time. "" does not change the last event id.
	ID string

	// Message is the message of a MessageEvent. Other clients share it.
	Message *waybill.Message

	// Connection is the id of the connection, for a ConnectedEvent.
	Connection string

	// Reason is the reason of a ResetEvent: "unknown", the last event is not in the archive, or too
	// old; "too_much", more was missed than may be caught up; "unavailable", the archive
	// cannot be read.
	Reason string
}

// messageEvent copies m, which its owner may reuse.
func messageEvent(m *waybill.Message) Event {
	c := m.Clone()
	c.Payload = bytes.Clone(m.Payload)
	return Event{Kind: MessageEvent, ID: c.ID, Message: &c}
}

func resetEvent(reason string) Event {
	return Event{Kind: ResetEvent, ID: timeID(time.Now()), Reason: reason}
}

const timePrefix = "since:"

// timeID returns the id of an event that is not a message: a client that saw no message since then
// catches up from that time.
func timeID(t time.Time) string { return timePrefix + strconv.FormatInt(t.UnixMilli(), 10) }

// parseTimeID is the inverse of timeID.
func parseTimeID(id string) (time.Time, bool) {
	digits, ok := strings.CutPrefix(id, timePrefix)
	ms, err := strconv.ParseInt(digits, 10, 64)
	return time.UnixMilli(ms), ok && err == nil
}
