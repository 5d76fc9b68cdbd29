package deadletter

import (
	"context"
	"time"
)

// Plan says how a bulk replay is to go.
type Plan struct {
	// Filter says which letters. Those that become dead letters later are not among them.
	Filter Filter `json:"filter"`

	// Rate is the most letters per second that are put back. Default 50. The replay begins
	// with 1 per second and goes through 2, 5, 10, 20, 50 … every 10 seconds.
	Rate float64 `json:"rate"`

	// MaxFailureRatio stops the replay when more than this share of what was put back, and
	// at least 10 letters, is dead again. Default 0.5. 1 never stops it.
	MaxFailureRatio float64 `json:"max_failure_ratio"`
}

// Preview says what a replay would put back.
type Preview struct {
	Letters int `json:"letters"`
	Keys    int `json:"keys"` // different ordering keys

	// Unprotected letters are older than the inbox keeps its records: consumers that did
	// process the message would process it again.
	Unprotected int       `json:"unprotected"`
	Oldest      time.Time `json:"oldest,omitzero"` // first failure of the oldest
}

// ReplayState is how far a replay is.
type ReplayState string

const (
	Running   ReplayState = "running"
	Done      ReplayState = "done"
	Stopped   ReplayState = "stopped" // by itself, because too much failed again
	Cancelled ReplayState = "cancelled"
)

// Replay is a bulk replay: an operation of its own, kept by the store, that any process goes
// on with when the one that drove it has gone.
type Replay struct {
	Number    int64       `json:"number"`
	Plan      Plan        `json:"plan"`
	Act       Act         `json:"act"`
	State     ReplayState `json:"state"`
	Letters   int         `json:"letters"`  // that matched when it began
	Requeued  int         `json:"requeued"` // so far
	Skipped   int         `json:"skipped"`  // were on their way, settled or gone, or can't be put back
	Failed    int         `json:"failed"`   // of those requeued, dead again
	Problem   string      `json:"problem,omitempty"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at,omitempty"`
}

// ReplayStore keeps bulk replays. Stores implement it; all methods are safe for concurrent
// use.
type ReplayStore interface {
	// PreviewReplay counts what matches f. Letters whose last failure is longer ago than
	// inboxRetention are unprotected.
	PreviewReplay(ctx context.Context, f Filter, inboxRetention time.Duration) (Preview, error)

	// StartReplay stores a running replay and returns its number. It puts nothing back yet.
	StartReplay(ctx context.Context, p Plan, act Act) (int64, error)

	// Replays returns replays, the newest first, at most limit.
	Replays(ctx context.Context, limit int) ([]Replay, error)

	// AdvanceReplay puts up to n further letters of a running replay back, in the order of
	// their numbers and in one transaction with its counts, counts anew what is dead again,
	// and ends the replay if nothing is left or too much has failed. One process at a time
	// advances a replay: to another one it returns the replay as it is. An unknown number is
	// [waybill.ErrNotFound].
	AdvanceReplay(ctx context.Context, number int64, n int) (Replay, error)

	// CancelReplay ends a running replay. It returns false if it had ended.
	CancelReplay(ctx context.Context, number int64, act Act) (bool, error)
}
