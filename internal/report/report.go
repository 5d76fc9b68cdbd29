// Package report describes messages in events.
package report

import (
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// ByType returns a copy of e for each topic and type among msgs, in the order in which they
// first appear, with the ids and the number of its messages.
func ByType(e observe.Event, msgs []*waybill.Message) []observe.Event {
	var events []observe.Event
	for _, m := range msgs {
		topic := m.Address()
		i := slices.IndexFunc(events, func(other observe.Event) bool { return other.Topic == topic && other.Type == m.Type })
		if i < 0 {
			i = len(events)
			events = append(events, e)
			events[i].Topic, events[i].Type = topic, m.Type
		}
		events[i].IDs = append(events[i].IDs, m.ID)
		events[i].Count++
	}
	return events
}

// Age returns how long ago m was enqueued, or, if it was to be delivered later, due. It is 0 if the clock of
// the program that enqueued it is ahead.
func Age(m *waybill.Message) time.Duration {
	since := m.Time
	if m.DeliverAt.After(since) {
		since = m.DeliverAt
	}
	if since.IsZero() {
		return 0
	}
	return max(0, time.Since(since))
}

// Replies begins the address of each reply destination of package request, and stands for all of them where
// addresses are counted: each client ever started has one.
const Replies = "waybill-reply"

// IsReply reports whether an address is that of a reply destination.
func IsReply(address string) bool { return strings.HasPrefix(address, Replies+"-") }

// Label returns address, or [Replies] for a reply destination.
func Label(address string) string {
	if IsReply(address) {
		return Replies
	}
	return address
}
