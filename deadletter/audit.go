package deadletter

import (
	"context"
	"time"
)

// Act says who changes something, and why. Both are kept in the audit log.
type Act struct {
	By  string `json:"by"`            // Required. Up to waybill.MaxIDLen bytes.
	Why string `json:"why,omitempty"` // Up to observe.MaxErrorLen bytes.
}

// Action is a kind of entry in the audit log.
type Action string

const (
	ActRequeue Action = "requeue" // a dead letter was requeued
	ActResolve Action = "resolve" // a dead letter was dealt with in another way
	ActDiscard Action = "discard" // a dead letter was discarded
	ActRestore Action = "restore" // a resolved or discarded dead letter is open again
	ActDelete  Action = "delete"  // a dead letter was deleted with its message
	ActEdit    Action = "edit"    // a corrected copy of a dead letter was requeued
	ActReplay  Action = "replay"  // a bulk replay was started
	ActCancel  Action = "cancel"  // a bulk replay was cancelled
	ActReveal  Action = "reveal"  // a payload was shown
	ActEffect  Action = "effect"  // a requeued letter's message had been processed in the meantime
	ActCleanup Action = "cleanup" // the janitor has removed dead letters past their retention

	ActCancelMessage Action = "message_cancel" // a message was cancelled before it was published; it is a dead letter now
)

// Entry is a line of the audit log.
type Entry struct {
	Number    int64     `json:"number"`
	At        time.Time `json:"at"` // by the store's clock
	Action    Action    `json:"action"`
	By        string    `json:"by"`
	Why       string    `json:"why,omitempty"`
	Letter    int64     `json:"letter,omitempty"` // its number
	MessageID string    `json:"message_id,omitempty"`
	Replay    int64     `json:"replay,omitempty"` // its number
	Detail    string    `json:"detail,omitempty"` // further details, such as the id of an edited copy
}

// AuditFilter narrows the audit log. Empty fields match everything.
type AuditFilter struct {
	Action    Action
	By        string
	Letter    int64
	MessageID string
	Replay    int64
	Before    int64 // only entries with a lower number, for paging
	Limit     int   // the default is 100
}

// Auditor keeps entries that are not about a change of a dead letter. Stores implement it.
type Auditor interface {
	// RecordAudit stores e in the audit log, with a number and a time of the store's own. An
	// entry whose By or Why [Act.Check] refuses is an error.
	RecordAudit(ctx context.Context, e Entry) error
}
