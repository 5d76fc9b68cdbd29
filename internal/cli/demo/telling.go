package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/waybill-go/waybill/inspect"
)

// progress is the progress of a run.
type progress struct {
	Orders, Waiting, Held, Invoices, Parcels, Backlog int
}

const progressSQL = `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM invoices), (SELECT count(*) FROM parcels)`

// progress counts first in the tables, then on the broker: what has been invoiced was
// ordered, and is on the broker. The outbox records a publish later than the broker confirms
// it, and after a relay's death much later, so it does not say what was published so far.
func (s *servers) progress(ctx context.Context) (progress, error) {
	var p progress
	if err := s.place.db.QueryRowContext(ctx, progressSQL).Scan(&p.Orders, &p.Invoices, &p.Parcels); err != nil {
		return p, err
	}
	stats, err := s.place.store.OutboxStats(ctx)
	if err != nil {
		return p, err
	}
	for _, st := range stats {
		switch st.Status {
		case inspect.Published, inspect.Dead, inspect.Failed:
		default:
			p.Waiting += int(st.Count)
		}
	}
	if p.Held, err = s.look.Held(ctx); err != nil {
		return p, err
	}
	for _, name := range []string{Billing, Shipping} {
		n, err := s.look.Backlog(ctx, name)
		if err != nil {
			return p, err
		}
		p.Backlog += n
	}
	return p, nil
}

// line describes the progress, in the order in which things happen.
func (p progress) line(orders int) string {
	return fmt.Sprintf("orders %d of %d → on the broker %d, copies included → invoices %d, parcels %d", p.Orders, orders, p.Held, p.Invoices, p.Parcels)
}

// telling writes the output: lines for what happens, and progress, on a terminal in one line
// that is overwritten.
type telling struct {
	live bool

	mu    sync.Mutex
	w     io.Writer
	dirty bool      // the cursor is behind a line of progress
	last  time.Time // of progress, where lines are not overwritten
	line  string
}

// plainInterval is how often progress is printed where it cannot be overwritten.
const plainInterval = time.Second

func newTelling(w io.Writer, live bool) *telling { return &telling{w: w, live: live, last: time.Now()} }

// say prints what happens.
func (t *telling) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dirty {
		fmt.Fprint(t.w, "\r\033[K")
	}
	fmt.Fprintf(t.w, format+"\n", args...)
	if t.dirty {
		fmt.Fprint(t.w, t.line)
	}
}

// show prints the progress.
func (t *telling) show(p progress, orders int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := p.line(orders)
	if t.live {
		fmt.Fprint(t.w, "\r\033[K", line)
		t.dirty, t.line = true, line
		return
	}
	if time.Since(t.last) >= plainInterval && line != t.line {
		fmt.Fprintln(t.w, line)
		t.last, t.line = time.Now(), line
	}
}

// end leaves the last line of progress as it is.
func (t *telling) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dirty {
		fmt.Fprintln(t.w)
	}
	t.dirty = false
	fmt.Fprintln(t.w)
}

// IsTerminal reports whether a stream is a terminal. Of the other devices that look like one,
// the null device is the one that programs are usually given.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
