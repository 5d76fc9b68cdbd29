package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Plan says how a bulk replay is to go.
type Plan struct {
	// Filter says which letters. Those that become dead letters later are not among them, nor
	// those that are on their way. Its State is [Open] or empty, and what only lists know,
	// Newest, After and Limit, must be empty.
	Filter Filter `json:"filter"`

	// Rate is the most letters per second that are put back, from 0.01 to [MaxReplayRate].
	// The default is [DefaultReplayRate]. The replay begins with 1 per second and goes through
	// 2, 5, 10, 20, 50 … every 10 seconds.
	Rate float64 `json:"rate"`

	// MaxFailureRatio stops the replay when more than this share of what it has put back is
	// dead again, once it has put back 10 letters. Above 0, and at most 1, which never stops
	// it. The default is [DefaultMaxFailureRatio].
	MaxFailureRatio float64 `json:"max_failure_ratio"`
}

// Defaults and limits of a [Plan].
const (
	DefaultReplayRate      = 50
	DefaultMaxFailureRatio = 0.5
	MaxReplayRate          = 10_000

	minReplayRate = 0.01
	minJudged     = 10 // letters put back, before a share of them says something
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
		return invalid("state", fmt.Sprintf("is %q; only open letters can be put back", f.State))
	case f.Limit != 0 || f.After != 0:
		return invalid("limit", "is for lists; a replay puts back everything that matches")
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

// Problem returns in words why a replay that has put so many letters back, of which so many
// are dead again, is to stop; "" if it may go on. Stores ask it.
func (p Plan) Problem(requeued, failed int) string {
	limit := p.Complete().MaxFailureRatio
	if requeued < minJudged || float64(failed) <= limit*float64(requeued) {
		return ""
	}
	return fmt.Sprintf("%d of %d letters that were put back are dead again: more than %v of them", failed, requeued, limit)
}

// Preview says what a replay would put back.
type Preview struct {
	Letters int `json:"letters"`
	Keys    int `json:"keys"` // different ordering keys, each within its topic

	// Unprotected letters are older than the inbox keeps its records: consumers that did
	// process the message would process it again.
	Unprotected int       `json:"unprotected"`
	Oldest      time.Time `json:"oldest,omitzero"` // first failure of the oldest
}

// ReplayState is how far a replay is.
type ReplayState string

const (
	Running   ReplayState = "running"   // or will, when a process drives it
	Done      ReplayState = "done"      // all was put back; what fails after that still counts as failed
	Stopped   ReplayState = "stopped"   // by itself, because too much failed again
	Cancelled ReplayState = "cancelled" // by somebody
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
	Failed    int         `json:"failed"`   // of those requeued, dead again, counted now; not those put back once more
	Problem   string      `json:"problem,omitempty"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at,omitempty"`
}

// ReplayStore keeps bulk replays. Stores implement it; all methods are safe for concurrent
// use. An unknown number is [waybill.ErrNotFound].
type ReplayStore interface {
	// PreviewReplay counts what a plan with this filter would put back. Letters whose last
	// failure is longer ago than inboxRetention are unprotected; 0 stands for an inbox that
	// keeps everything. It reads every letter that may match, and keeps nobody waiting.
	PreviewReplay(ctx context.Context, f Filter, inboxRetention time.Duration) (Preview, error)

	// StartReplay stores a running replay and returns its number. It puts nothing back yet. A
	// plan that [Plan.Check] refuses is an error.
	StartReplay(ctx context.Context, p Plan, act Act) (int64, error)

	// Replay returns one replay.
	Replay(ctx context.Context, number int64) (Replay, error)

	// Replays returns at most limit replays, those that run first, then the newest first, and
	// an empty slice if there are none.
	Replays(ctx context.Context, limit int) ([]Replay, error)

	// AdvanceReplay puts up to n further letters of a running replay back, in the order of
	// their numbers and in one transaction with its counts, counts anew what is dead again,
	// and ends the replay if nothing is left or too much has failed. One process at a time
	// advances a replay: to another one it returns the replay as it is. So it does if the
	// replay has ended.
	AdvanceReplay(ctx context.Context, number int64, n int) (Replay, error)

	// CancelReplay ends a running replay. It returns false if it had ended. What was put back
	// goes on.
	CancelReplay(ctx context.Context, number int64, act Act) (bool, error)
}
