package pgstore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/relay"
)

// openWritersSQL lists the transactions that may still add rows with low positions. An
// INSERT takes the table's ROW EXCLUSIVE lock before it draws a position and keeps it until
// its transaction ends; a prepared transaction shows here as well.
const openWritersSQL = `
SELECT DISTINCT virtualtransaction
  FROM pg_locks
 WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
   AND relation = $1::text::regclass
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

const (
	// markLag is how many positions a lane's mark may trail before it is worth a look at the
	// open writers; below it the index entries of deleted rows cost less than the look.
	markLag = 1000

	markInterval = 100 * time.Millisecond
)

// lowWater keeps, per lane, the position up to which the lane is known to be empty for good,
// so that a claim need not walk the index entries of deleted rows, which stay for as long as
// somebody holds an old snapshot.
//
// A mark rises in three steps. A claim shows the first visible position of a lane: nothing
// below it is visible (the candidate). Then the open writers are listed: only they can hold
// uncommitted rows below it. When each of them has ended, the next claim of the lane shows
// whatever they left; the mark becomes the lower of what it shows and the candidate. All
// decisions rest on what snapshots show, never on what a relay did with the rows.
type lowWater struct {
	mu      sync.Mutex
	lanes   map[int]*laneMark
	writers map[string]bool // those that the candidates wait for; nil if none were listed
	looked  time.Time
}

type laneMark struct {
	epoch     int64
	mark      int64 // claims read above it
	first     int64 // first visible position, as the last claim showed
	seen      int64 // highest position ever seen
	candidate int64 // 0 if there is none
	confirmed bool  // the writers that the candidate waited for have ended
	armed     bool  // they had ended before the claim under way began
}

func newLowWater() *lowWater { return &lowWater{lanes: make(map[int]*laneMark)} }

// of returns the marks to claim the lanes from. A lane that has changed hands starts anew.
func (w *lowWater) of(lanes []relay.Lane) []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	marks := make([]int64, len(lanes))
	for i, l := range lanes {
		m := w.lanes[l.Number]
		if m == nil || m.epoch != l.Epoch {
			m = &laneMark{epoch: l.Epoch}
			w.lanes[l.Number] = m
		}
		m.armed = m.confirmed
		marks[i] = m.mark
	}
	return marks
}

// claimed takes in what a claim of the lanes, in this order, has shown. Lanes behind the
// one in which the limit was reached were not read.
func (w *lowWater) claimed(lanes []relay.Lane, claims []relay.Claim, limit int) {
	first := make(map[int]int64, len(lanes))
	last := make(map[int]int64, len(lanes))
	for i := range claims {
		n, p := claims[i].Lane.Number, claims[i].Position
		if f, ok := first[n]; !ok || p < f {
			first[n] = p
		}
		last[n] = max(last[n], p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range lanes {
		m := w.lanes[l.Number]
		f, hasRows := first[l.Number]
		if m == nil || m.epoch != l.Epoch || !hasRows && len(claims) == limit {
			continue
		}
		m.seen = max(m.seen, last[l.Number])
		if m.first = f; !hasRows {
			m.first = m.seen + 1
		}
		m.raise()
	}
}

// raise lifts the mark to a confirmed candidate, or to what the newest claim shows below it.
func (m *laneMark) raise() {
	if m.armed {
		m.mark = max(m.mark, min(m.candidate, m.first)-1)
		m.candidate, m.confirmed, m.armed = 0, false, false
	}
}

// advance looks at the open writers if it is time to.
func (w *lowWater) advance(ctx context.Context, openWriters func(context.Context) ([]string, error)) error {
	candidates, due := w.plan()
	if !due {
		return nil
	}
	open, err := openWriters(ctx)
	if err != nil {
		return err
	}
	w.look(candidates, open)
	return nil
}

// plan returns the candidates as of before the writers are listed, and whether to list them.
func (w *lowWater) plan() (candidates map[int]int64, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < markInterval {
		return nil, false
	}
	lag := int64(math.MinInt64)
	candidates = make(map[int]int64, len(w.lanes))
	for n, m := range w.lanes {
		candidates[n] = m.first
		lag = max(lag, m.first-m.mark)
	}
	if w.writers == nil && lag < markLag {
		return nil, false
	}
	w.looked = time.Now()
	return candidates, true
}

// look takes in a list of open writers: the end of a wait, or the begin of the next one.
func (w *lowWater) look(candidates map[int]int64, open []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writers != nil {
		for _, o := range open {
			if w.writers[o] {
				return // one that the candidates wait for is still open
			}
		}
		for _, m := range w.lanes {
			m.confirmed = m.candidate > 0
		}
		w.writers = nil
		return
	}
	w.writers = make(map[string]bool, len(open))
	for _, o := range open {
		w.writers[o] = true
	}
	for n, m := range w.lanes {
		if c := candidates[n]; c > m.mark {
			m.candidate = c
		}
	}
}

func (s *Store[Tx]) openWriters(ctx context.Context) ([]string, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.openWriters, s.names.render("{outbox}"))
	return sqldb.Collect(rows, err, sqldb.Scan[string])
}
