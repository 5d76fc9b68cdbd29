package traffic

import (
	"context"
	"time"
)

// Row is what one process has counted in one interval, or the sum of several rows. It never changes: it is
// added, and removed when its sum replaces it.
type Row struct {
	Step   time.Duration // length of the interval: [Minute], [TenMinutes] or [Hour]
	At     time.Time     // its beginning, a multiple of Step, in UTC
	Writer string        // with Step and At it identifies the row; at most 64 bytes of ASCII
	Data   []byte        // what [Interval.Encode] has returned
}

// The lengths of intervals.
const (
	Minute     = time.Minute
	TenMinutes = 10 * time.Minute
	Hour       = time.Hour
)

// Retention is how long rows are kept.
const Retention = 366 * 24 * time.Hour

// Store keeps rows. Stores implement it; all methods are safe for concurrent use.
type Store interface {
	// AddTraffic adds a row, unless it is there already: the call may be repeated after an error.
	AddTraffic(ctx context.Context, row Row) error

	// Traffic returns the rows of the given step that begin at from or later, and before to, in order of
	// their time; an empty slice if there are none.
	Traffic(ctx context.Context, step time.Duration, from, to time.Time) ([]Row, error)

	// ReplaceTraffic removes the rows old, whose Data is ignored, and adds sum unless it is nil, all or
	// nothing. It is a conflict if one of old is not there: another process has replaced it.
	ReplaceTraffic(ctx context.Context, old []Row, sum *Row) error
}
