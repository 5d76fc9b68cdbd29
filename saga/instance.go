package saga

import (
	"encoding/json"
	"maps"
	"time"
)

// ID names an instance.
type ID struct {
	Tenant string `json:"tenant"` // as of the messages; never empty
	Saga   string `json:"saga"`   // the saga's name
	Key    string `json:"key"`    // what its messages have in common, such as the number of an order
}

// Status is the status of an instance.
type Status string

// The kinds of [Status].
const (
	Running      Status = "running"
	Compensating Status = "compensating" // a step failed permanently; the completed ones are being compensated
	Stuck        Status = "stuck"        // needs a person: a compensation failed permanently
	Completed    Status = "completed"
	Compensated  Status = "compensated" // ended, with all steps compensated
)

// Statuses are all kinds of [Status].
var Statuses = []Status{Running, Compensating, Stuck, Completed, Compensated}

// Ended reports whether an instance with this status takes no further messages.
func (s Status) Ended() bool { return s == Completed || s == Compensated }

// Instance is one process, as a store keeps it.
type Instance struct {
	ID
	Number     int64           `json:"number"`     // assigned by the store, in the order of their start
	Version    int64           `json:"version"`    // rises by one with each change; 0 if it is not stored yet
	Definition int             `json:"definition"` // version of the saga that it runs on
	Status     Status          `json:"status"`
	State      string          `json:"state,omitempty"` // name of the state set by its rules or steps
	Data       json.RawMessage `json:"data,omitempty"`  // the caller's struct; nil in lists
	Progress   Progress        `json:"progress"`        // zero in lists
	Error      string          `json:"error,omitempty"` // why it is compensating, compensated or stuck, as by observe.ErrorText
	StartedAt  time.Time       `json:"started_at"`      // these by the store's clock
	ChangedAt  time.Time       `json:"changed_at"`
	EndedAt    time.Time       `json:"ended_at,omitzero"` // zero unless it has ended
}

// Progress is the state that an instance keeps in addition to the data.
type Progress struct {
	Topic    string            `json:"topic,omitempty"`    // where it sends messages to itself
	Done     int               `json:"done,omitempty"`     // number of steps completed and not compensated, from the first on
	Back     bool              `json:"back,omitempty"`     // steps are being compensated, the last first
	Waiting  bool              `json:"waiting,omitempty"`  // the step after the completed ones was started; a message will report its result
	Turn     int64             `json:"turn,omitempty"`     // number of the latest message for a step; other messages are stale
	Timeouts map[string]string `json:"timeouts,omitempty"` // name: id of the scheduled message; others are stale

	// Scheduled are the messages that the end of the instance cancels if they are not yet due, by id,
	// with the time for which they were scheduled.
	Scheduled map[string]time.Time `json:"scheduled,omitempty"`
}

// Up to maxScheduled messages are remembered in any case, and more of them for scheduledGrace after
// their time: relays may be late.
const (
	maxScheduled   = 100
	scheduledGrace = 24 * time.Hour
)

// remember adds a scheduled message. last is when the instance was changed before.
func (p *Progress) remember(id string, at, last time.Time) {
	if p.Scheduled == nil {
		p.Scheduled = make(map[string]time.Time)
	}
	if len(p.Scheduled) >= maxScheduled {
		maps.DeleteFunc(p.Scheduled, func(_ string, due time.Time) bool { return due.Add(scheduledGrace).Before(last) })
	}
	p.Scheduled[id] = at.UTC()
}

// Entry is a change of an instance, as its log keeps it.
type Entry struct {
	Version     int64     `json:"version"` // the resulting version
	At          time.Time `json:"at"`      // by the store's clock
	MessageID   string    `json:"message_id,omitempty"`
	MessageType string    `json:"message_type,omitempty"`
	From        string    `json:"from,omitempty"` // states
	To          string    `json:"to,omitempty"`
	Status      Status    `json:"status"`
	Definition  int       `json:"definition"`
	Node        string    `json:"node,omitempty"` // that made it
	Note        string    `json:"note,omitempty"` // such as the step, the timeout, the operator; at most observe.MaxErrorLen bytes
}
