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

// Status says where an instance stands.
type Status string

// The kinds of [Status].
const (
	Running      Status = "running"
	Compensating Status = "compensating" // a step failed for good; what the others did is being undone
	Stuck        Status = "stuck"        // needs a person: what was to be undone could not be
	Completed    Status = "completed"
	Compensated  Status = "compensated" // ended, with all undone
)

// Statuses are all kinds of [Status].
var Statuses = []Status{Running, Compensating, Stuck, Completed, Compensated}

// Ended reports whether an instance with this status takes no further messages.
func (s Status) Ended() bool { return s == Completed || s == Compensated }

// Instance is one process, as a store keeps it.
type Instance struct {
	ID
	Number     int64           `json:"number"`     // of the store's own, in the order of their start
	Version    int64           `json:"version"`    // rises by one with each change; 0 if it is not stored yet
	Definition int             `json:"definition"` // version of the saga that it runs on
	Status     Status          `json:"status"`
	State      string          `json:"state,omitempty"` // name of the state that its rules or steps have led to
	Data       json.RawMessage `json:"data,omitempty"`  // the caller's struct; nil in lists
	Progress   Progress        `json:"progress"`        // zero in lists
	Error      string          `json:"error,omitempty"` // why it is compensating, compensated or stuck, as by waybill.ErrorText
	StartedAt  time.Time       `json:"started_at"`      // these by the store's clock
	ChangedAt  time.Time       `json:"changed_at"`
	EndedAt    time.Time       `json:"ended_at,omitzero"` // zero unless it has ended
}

// Progress is what an instance keeps for itself beside the data.
type Progress struct {
	Topic    string            `json:"topic,omitempty"`    // where its own messages go
	Done     int               `json:"done,omitempty"`     // steps that are done and not undone; the first ones
	Back     bool              `json:"back,omitempty"`     // steps are undone, the last first
	Waiting  bool              `json:"waiting,omitempty"`  // the step after those that are done was begun, and a message will tell how it ended
	Turn     int64             `json:"turn,omitempty"`     // number of the latest message for a step; others are stale
	Timeouts map[string]string `json:"timeouts,omitempty"` // name: id of the scheduled message; others are stale

	// Scheduled are the messages that the end cancels if they are kept until then, by id, with the
	// time for which they were scheduled.
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
	Version     int64     `json:"version"` // that it has led to
	At          time.Time `json:"at"`      // by the store's clock
	MessageID   string    `json:"message_id,omitempty"`
	MessageType string    `json:"message_type,omitempty"`
	From        string    `json:"from,omitempty"` // states
	To          string    `json:"to,omitempty"`
	Status      Status    `json:"status"`
	Definition  int       `json:"definition"`
	Node        string    `json:"node,omitempty"` // that made it
	Note        string    `json:"note,omitempty"` // such as the step, the timeout, who acted; at most waybill.MaxErrorLen bytes
}
