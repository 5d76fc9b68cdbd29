// Package report creates events about several messages.
package report

import (
	"slices"

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
