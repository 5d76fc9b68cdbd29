package push

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// Kind is what an event tells a client.
type Kind int

const (
	// MessageEvent carries a message.
	MessageEvent Kind = iota

	// ConnectedEvent is the first one: it tells the client the id of its connection.
	ConnectedEvent

	// ResetEvent says that the client may have missed messages and cannot catch up: it must load
	// afresh what it shows. What follows is complete again.
	ResetEvent

	// IdleEvent is a sign of life, after a time without other events.
	IdleEvent
)

// Event is one thing that a client is told. It is read-only.
type Event struct {
	Kind Kind

	// ID is what the client says as its last event when it connects again: the message's ID, and
	// for a ConnectedEvent or ResetEvent the time. "": this event does not change what it says.
	ID string

	// Message is the message of a MessageEvent. Other clients share it.
	Message *waybill.Message

	// Connection is the id of the connection, for a ConnectedEvent.
	Connection string

	// Reason is why, for a ResetEvent: "unknown", the last event is not in the archive, or not
	// young enough; "too_much", more was missed than may be caught up; "unavailable", the archive
	// cannot be read.
	Reason string
}

// messageEvent copies m, which its owner may use again.
func messageEvent(m *waybill.Message) Event {
	c := m.Clone()
	c.Payload = bytes.Clone(m.Payload)
	return Event{Kind: MessageEvent, ID: c.ID, Message: &c}
}

func resetEvent(reason string) Event {
	return Event{Kind: ResetEvent, ID: timeID(time.Now()), Reason: reason}
}

const timePrefix = "since:"

// timeID is the id of an event that is not a message: a client that saw no message since then
// catches up from there.
func timeID(t time.Time) string { return timePrefix + strconv.FormatInt(t.UnixMilli(), 10) }

// parseTimeID is the inverse of timeID.
func parseTimeID(id string) (time.Time, bool) {
	digits, ok := strings.CutPrefix(id, timePrefix)
	ms, err := strconv.ParseInt(digits, 10, 64)
	return time.UnixMilli(ms), ok && err == nil
}
