package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/waybill-go/waybill/outbox"
)

// progress is how far things have come.
type progress struct {
	Orders, Waiting, Held, Invoices, Parcels, Backlog int
}

const progressSQL = `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM invoices), (SELECT count(*) FROM parcels)`

// progress counts in the tables first and on the broker then: what has been invoiced was
// ordered, and is on the broker. The outbox notes later than the broker confirms, and after a
// relay's death much later, so it does not say what was published so far.
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
		case outbox.Published, outbox.Dead, outbox.Failed:
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

// line tells a person how far things have come, in the order in which they happen.
func (p progress) line(orders int) string {
	return fmt.Sprintf("orders %d of %d → on the broker %d, copies included → invoices %d, parcels %d", p.Orders, orders, p.Held, p.Invoices, p.Parcels)
}

// telling writes the story: lines for what happens, and progress, on a terminal in one line
// that is written over and over.
type telling struct {
	live bool

	mu    sync.Mutex
	w     io.Writer
	dirty bool      // the cursor stands behind a line of progress
	last  time.Time // of progress, where lines are not written over
	line  string
}

// plainInterval is how often progress is told where it can't be written over.
const plainInterval = time.Second

func newTelling(w io.Writer, live bool) *telling { return &telling{w: w, live: live, last: time.Now()} }

// say tells what happens.
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

// show tells how far things have come.
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

// IsTerminal reports whether a person sits behind a stream. Of the other devices that look
// like a terminal the null device is the one that programs are given.
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
