package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Plan configures a bulk replay.
type Plan struct {
	// Filter selects the dead letters. Those that are dead-lettered later are not included, nor those
	// that are requeued and pending. Its State is [Open] or empty, and the fields for lists, Newest,
	// After and Limit, must be empty.
	Filter Filter `json:"filter"`

	// Rate is the maximum number of letters requeued per second, from 0.01 to [MaxReplayRate]. The
	// default is [DefaultReplayRate]. The replay begins with 1 per second and steps up to 2, 5, 10, 20,
	// 50 … every 10 seconds.
	Rate float64 `json:"rate"`

	// MaxFailureRatio stops the replay when more than this share of what it has requeued is dead again,
	// once it has requeued 10 letters. Above 0, and at most 1, which never stops it. The default is
	// [DefaultMaxFailureRatio].
	MaxFailureRatio float64 `json:"max_failure_ratio"`
}

// Defaults and limits of a [Plan].
const (
	DefaultReplayRate      = 50
	DefaultMaxFailureRatio = 0.5
	MaxReplayRate          = 10_000

	minReplayRate = 0.01
	minJudged     = 10 // letters requeued before the failure ratio is considered
)

// Complete returns the plan with its defaults.
func (p Plan) Complete() Plan {
	p.Rate = cmp.Or(p.Rate, DefaultReplayRate)
	p.MaxFailureRatio = cmp.Or(p.MaxFailureRatio, DefaultMaxFailureRatio)
	return p
}

// Check returns an error that names the field if the plan, with its defaults, can't be
// followed.
func (p Plan) Check() error {
	f := &p.Filter
	if err := f.Check(); err != nil {
		return err
	}
	p = p.Complete()
	switch {
	case f.State != "" && f.State != Open:
		return invalid("state", fmt.Sprintf("is %q; only open letters can be requeued", f.State))
	case f.Limit != 0 || f.After != 0:
		return invalid("limit", "is for lists; a replay requeues everything that matches")
	case f.TextAlone():
		return invalid("text", "goes with a fingerprint, or with a time since when: it is looked for in the newest letters only")
	case f.Newest:
		return invalid("newest", "is for lists; a replay goes by rising number")
	case !(p.Rate >= minReplayRate && p.Rate <= MaxReplayRate):
		return invalid("rate", fmt.Sprintf("is %v, it must be from %v to %d per second", p.Rate, minReplayRate, MaxReplayRate))
	case !(p.MaxFailureRatio > 0 && p.MaxFailureRatio <= 1):
		return invalid("max_failure_ratio", fmt.Sprintf("is %v, it must be above 0 and at most 1", p.MaxFailureRatio))
	}
	return nil
}

// Problem returns in words why a replay with these numbers of letters requeued and dead again is to
// stop; "" if it may continue. Stores call it.
func (p Plan) Problem(requeued, failed int) string {
	limit := p.Complete().MaxFailureRatio
	if requeued < minJudged || float64(failed) <= limit*float64(requeued) {
		return ""
	}
	return fmt.Sprintf("%d of %d letters that were put back are dead again: more than %v of them", failed, requeued, limit)
}

// Preview says what a replay would requeue.
type Preview struct {
	Letters int `json:"letters"`
	Keys    int `json:"keys"` // different ordering keys, each within its topic

	// Unprotected letters are older than the inbox retention: consumers that did process the message
	// would process it again.
	Unprotected int       `json:"unprotected"`
	Oldest      time.Time `json:"oldest,omitzero"` // first failure of the oldest
}

// ReplayState is the state of a replay.
type ReplayState string

const (
	Running   ReplayState = "running"   // or waiting for a process that drives it
	Done      ReplayState = "done"      // everything was requeued; what fails after that still counts as failed
	Stopped   ReplayState = "stopped"   // stopped by itself, because too much failed again
	Cancelled ReplayState = "cancelled" // by somebody
)

// Replay is a bulk replay: an operation that the store keeps, and that any process continues when
// the one that drove it has ended.
type Replay struct {
	Number    int64       `json:"number"`
	Plan      Plan        `json:"plan"`
	Act       Act         `json:"act"`
	State     ReplayState `json:"state"`
	Letters   int         `json:"letters"`  // that matched when it began
	Requeued  int         `json:"requeued"` // so far
	Skipped   int         `json:"skipped"`  // were pending, settled or deleted, or can't be requeued
	Failed    int         `json:"failed"`   // of those requeued, dead again as counted now, and not requeued since
	Problem   string      `json:"problem,omitempty"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at,omitempty"`
}

// ReplayStore keeps bulk replays. Stores implement it; all methods are safe for concurrent
// use. An unknown number is [waybill.ErrNotFound].
type ReplayStore interface {
	// PreviewReplay counts what a plan with this filter would requeue. Letters whose last failure is
	// longer ago than inboxRetention are unprotected; 0 stands for an inbox that keeps everything. It
	// reads every letter that may match, and blocks nothing.
	PreviewReplay(ctx context.Context, f Filter, inboxRetention time.Duration) (Preview, error)

	// StartReplay stores a running replay and returns its number. It requeues nothing yet. A
	// plan that [Plan.Check] refuses is an error.
	StartReplay(ctx context.Context, p Plan, act Act) (int64, error)

	// Replay returns one replay.
	Replay(ctx context.Context, number int64) (Replay, error)

	// Replays returns at most limit replays, running ones first, then by age, the newest first, and an
	// empty slice if there are none.
	Replays(ctx context.Context, limit int) ([]Replay, error)

	// AdvanceReplay requeues up to n further letters of a running replay, in the order of their numbers
	// and in one transaction with its counts, recounts what is dead again, and ends the replay if
	// nothing is left or too much has failed. One process at a time advances a replay: to another one
	// it returns the replay as it is, and also if the replay has ended.
	AdvanceReplay(ctx context.Context, number int64, n int) (Replay, error)

	// CancelReplay ends a running replay. It returns false if it had ended. What was requeued stays
	// requeued.
	CancelReplay(ctx context.Context, number int64, act Act) (bool, error)
}
