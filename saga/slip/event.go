package slip

import (
	"encoding/json"

	"github.com/waybill-go/waybill"
)

// The events of a slip. Each is enqueued in the transaction that it reports.
var (
	// ActivityCompleted says that an activity was done.
	ActivityCompleted = waybill.NewEventType[Event]("waybill.slip.activity_completed", 1)

	// ActivityFaulted says that an activity has failed permanently, and the slip is being compensated.
	ActivityFaulted = waybill.NewEventType[Event]("waybill.slip.activity_faulted", 1)

	// ActivityCompensated says that an activity was compensated.
	ActivityCompensated = waybill.NewEventType[Event]("waybill.slip.activity_compensated", 1)

	// ActivityCompensationFailed says that an activity could not be compensated.
	ActivityCompensationFailed = waybill.NewEventType[Event]("waybill.slip.activity_compensation_failed", 1)

	// SlipCompleted says that all activities were done.
	SlipCompleted = waybill.NewEventType[Event]("waybill.slip.completed", 1)

	// SlipFaulted says that an activity has failed, and all before it that have a compensation were compensated.
	SlipFaulted = waybill.NewEventType[Event]("waybill.slip.faulted", 1)

	// SlipCompensationFailed says that the slip is stuck in compensation: its message is a dead letter
	// of the host, and the slip continues when that is requeued.
	SlipCompensationFailed = waybill.NewEventType[Event]("waybill.slip.compensation_failed", 1)
)

// Event is the payload of all of them.
type Event struct {
	Slip     string                     `json:"slip"`
	Activity string                     `json:"activity"` // in events of the slip, the one that caused it
	Index    int                        `json:"index"`    // of Activity in the itinerary, from 0
	Vars     map[string]json.RawMessage `json:"vars,omitempty"`
	Fault    *Fault                     `json:"fault,omitempty"` // in those of failures
}

// Fault says why an activity, or its compensation, has failed permanently.
type Fault struct {
	Activity string         `json:"activity"`
	Reason   waybill.Reason `json:"reason"`
	Error    string         `json:"error"`    // at most observe.MaxErrorLen bytes
	Attempts int            `json:"attempts"` // the last one included
}

// event is an [Event] with its type.
type event struct {
	kind waybill.EventType[Event]
	Event
}

func (s *state) event(kind waybill.EventType[Event], index int, f *Fault) event {
	return event{kind, Event{
		Slip: s.ID, Activity: s.Itinerary[index].Activity, Index: index, Vars: s.Vars, Fault: f,
	}}
}
