package pgstore

import (
	"math"
	"strings"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// youngWriter is how long a writer is assumed to end before the next claim.
const youngWriter = 50 * time.Millisecond

// cursors remembers how far each lane has been read, so that a claim reads forward and walks neither over the
// index entries of deleted rows nor over messages in flight. It does no I/O.
//
// A writer draws its positions when it inserts and shows its rows when it commits: rows may
// appear below what was read. The transactions that may still add some are known: nextval locks the sequence
// until the writer's transaction ends, whatever becomes of savepoints. So each claim comes
// with a look: the last position drawn, and then, in this order, the transactions that hold
// that lock. A transaction that is not listed has yet to draw, above that last position.
//
//   - Of each writer a lower bound is kept: the last position as of the latest look that did
//     not list it. When it has ended, every lane is read again from there.
//   - One that came and went between two looks was never listed. It drew above the last
//     position of the look before the claim that missed it: no lane is taken for read
//     further than that.
//   - Whether a writer has ended is known after the claim that should have read its rows. One
//     that is young is assumed to have: what it may have written is read again, which is
//     little. One that is older, because somebody forgot it, is assumed to be open. If the look, made after the
//     claim's snapshot was taken, still lists it, then no writer that had to wait for it, as writers of one key
//     do, is visible in that snapshot: a commit becomes visible before its locks are released. If the look does
//     not list it, rows of its keys may have been claimed before its own, and the page has to be read again.
//
// A server that was restarted, or whose sequence went back, may draw positions for a second time: then every
// lane is read from its beginning. So may one that has recovered from a crash, which loses what was not flushed
// (commits with synchronous_commit off, and the positions that they drew), keeps the time of its start, and may
// have drawn beyond the last position known when it is asked again. But no session outlives a crash: what a
// session that was not met before shows counts as that of another server.
type cursors struct {
	lanes    map[int]*laneCursor
	writers  map[string]writer
	server   string
	sessions map[int]bool // that have answered, by the process that serves them
	last     int64        // last position drawn, as of the latest look
}

// maxSessions is the number of sessions remembered: more than any pool has.
const maxSessions = 1000

// laneCursor is how far a lane has been read: every row up to low that a claim could see was returned, and only
// open writers can still add rows there.
type laneCursor struct {
	epoch int64
	low   int64
}

type writer struct {
	above int64 // its positions are above this one
	since time.Time
}

// look is what a claim learns in addition to its rows.
type look struct {
	Server  string   `json:"server"`  // which start of which server answered
	Session int      `json:"session"` // in which process
	Last    int64    `json:"last"`    // last position drawn, read before the writers were listed
	Writers []string `json:"writers"` // virtual ids of transactions that have drawn positions
	Waits   bool     `json:"waits"`   // whether anything waits
}

// page is what one statement reads: in each lane the positions above its from.
type page struct {
	lanes    []contract.Lane
	from     []int64
	limit    int
	openFrom time.Time // writers known since then, or longer, are assumed to be open
}

func newCursors() *cursors {
	return &cursors{lanes: make(map[int]*laneCursor), writers: make(map[string]writer), sessions: make(map[int]bool)}
}

// begin prepares for a claim of lanes: those that have changed hands, or are named in again,
// are read from their beginning.
func (c *cursors) begin(lanes []contract.Lane, again []int) {
	for _, l := range lanes {
		if lc := c.lanes[l.Number]; lc == nil || lc.epoch != l.Epoch {
			c.lanes[l.Number] = &laneCursor{epoch: l.Epoch}
		}
	}
	for _, n := range again {
		if lc := c.lanes[n]; lc != nil {
			lc.low = 0
		}
	}
}

// forget makes the next claim read every lane from its beginning.
func (c *cursors) forget() { *c = *newCursors() }

// page returns what to read next. Writers known for less than patience are assumed to have ended.
func (c *cursors) page(lanes []contract.Lane, limit int, patience time.Duration, now time.Time) page {
	p := page{lanes: lanes, from: make([]int64, len(lanes)), limit: limit, openFrom: now.Add(-patience)}
	floor := int64(math.MaxInt64)
	for _, w := range c.writers {
		if w.since.After(p.openFrom) {
			floor = min(floor, w.above)
		}
	}
	for i, l := range lanes {
		p.from[i] = min(c.lanes[l.Number].low, floor)
	}
	return p
}

// took records what a page has shown, rows being in the order of their positions, at the time of its look. If
// it returns false the rows must not be used: read a page again.
func (c *cursors) took(p page, rows []contract.Claim, seen look, now time.Time) bool {
	if seen.Server != c.server || seen.Last < c.last || !c.sessions[seen.Session] {
		c.startOver(seen)
	}
	ended, valid := c.ended(p, seen)
	if valid {
		c.advance(p, rows)
	}
	c.lower(ended)
	c.note(seen, ended, now)
	return valid
}

// startOver resets every lane to its beginning, for a server that may be another one than before.
func (c *cursors) startOver(seen look) {
	for _, lc := range c.lanes {
		lc.low = 0
	}
	clear(c.writers)
	if seen.Server != c.server || len(c.sessions) == maxSessions {
		clear(c.sessions)
	}
	c.sessions[seen.Session] = true
	c.server, c.last = seen.Server, 0
}

// ended drops the writers that are no longer open and returns the lowest position above which their rows may
// be. The page is valid if it has read them, or assumed nothing about them.
func (c *cursors) ended(p page, seen look) (above int64, valid bool) {
	open := make(map[string]bool, len(seen.Writers))
	for _, id := range seen.Writers {
		open[id] = true
	}
	above, valid = math.MaxInt64, true
	for id, w := range c.writers {
		if open[id] {
			continue
		}
		delete(c.writers, id)
		above = min(above, w.above)
		valid = valid && (w.since.After(p.openFrom) || p.readFrom(w.above))
	}
	return above, valid && (c.last > 0 || p.readFrom(0))
}

// readFrom reports whether the page shows every row above a position.
func (p page) readFrom(position int64) bool {
	for _, f := range p.from {
		if f > position {
			return false
		}
	}
	return true
}

// advance notes how far a page was read: to its end, or up to the last row if it came to its limit.
func (c *cursors) advance(p page, rows []contract.Claim) {
	upTo := c.last
	if len(rows) == p.limit {
		upTo = min(upTo, rows[len(rows)-1].Position)
	}
	for _, l := range p.lanes {
		lc := c.lanes[l.Number]
		lc.low = max(lc.low, upTo)
	}
}

// lower makes every lane be read again above a position.
func (c *cursors) lower(above int64) {
	for _, lc := range c.lanes {
		lc.low = min(lc.low, above)
	}
}

// note remembers the open writers. A prepared transaction changes its id, which then begins
// with -1, and so takes over the bound of those that seem to have ended.
func (c *cursors) note(seen look, ended int64, now time.Time) {
	for _, id := range seen.Writers {
		if _, known := c.writers[id]; known {
			continue
		}
		w := writer{above: c.last, since: now}
		if strings.HasPrefix(id, "-1/") {
			w.above = min(w.above, ended)
		}
		c.writers[id] = w
	}
	c.last = seen.Last
}
