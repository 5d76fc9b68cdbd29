package rows

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// Row is a message with what every table stores of it: one of the outbox, or a scheduled one.
type Row struct {
	Message     waybill.Message
	Position    int64
	Lane        int
	Destination string // "" if it is not routed yet, or if there is only one
	EnqueuedAt  time.Time
	Malformed   error // why it can't be published, in stores that others may write to
}

// NewRow returns a message that is enqueued. One without a time gets the current one.
func NewRow(m waybill.Message, position int64, now time.Time) *Row {
	if m.Time.IsZero() {
		m.Time = now
	}
	return rowOf(m, position, now)
}

// rowOf returns a message as databases keep it: times are rounded to microseconds, in UTC.
func rowOf(m waybill.Message, position int64, now time.Time) *Row {
	for _, t := range []*time.Time{&m.Time, &m.DeliverAt, &m.ExpiresAt} {
		if !t.IsZero() {
			*t = t.Round(time.Microsecond).UTC()
		}
	}
	return &Row{Message: m, Position: position, Lane: lanehash.Of(&m), EnqueuedAt: now}
}

func (r *Row) identity() outbox.Identity { return outbox.IdentityOf(&r.Message) }

// unit returns the unit that the row is ordered in. Its key is empty if there is no order.
func (r *Row) unit() settleplan.Unit {
	return settleplan.Unit{Topic: r.Message.Address(), Key: r.Message.Key, Destination: r.Destination}
}

// topicKey is a unit without its destination.
func (r *Row) topicKey() [2]string { return [2]string{r.Message.Address(), r.Message.Key} }

// Base returns the row itself.
func (r *Row) Base() *Row { return r }

// Place identifies a waiting row.
type Place struct {
	Position    int64
	Destination string
}

// String returns the position, a slash and the destination.
func (p Place) String() string { return fmt.Sprint(p.Position, "/", p.Destination) }

// Waiting is a row that may not be sent now. It has no due time if it follows another, or a dead letter that
// parks its unit. One that is alone has left its unit.
type Waiting struct {
	Row
	DueAt          time.Time
	Alone          bool
	Attempts, Life int
	Error          string
	FirstFailed    time.Time
	Letter         int64 // that it was requeued from, 0 if from none
	Replay         int64 // that requeued it, 0 if none did
	History        []deadletter.Attempt
}

// waiting returns a row that waits for a destination.
func waiting(r *Row, destination string) *Waiting {
	w := &Waiting{Row: *r}
	w.Destination = destination
	return w
}

// Place returns what identifies the row.
func (w *Waiting) Place() Place { return Place{w.Position, w.Destination} }

// Archived is a row that was published.
type Archived struct {
	Key any // which the store assigns
	Row
	Attempts    int
	PublishedAt time.Time
}

// ID is a remembered identity of a message that must be enqueued only once.
type ID struct {
	outbox.Identity
	At time.Time
}

// Letter is a dead letter. The message is in the row.
type Letter struct {
	deadletter.Letter
	Row        Row
	Key        inbox.Key // of a consumer's dead letter
	RequeuedAt time.Time // zero if it is not requeued; else when its consumer may take it
}

// Base returns the letter's row.
func (l *Letter) Base() *Row { return &l.Row }

// Record is an inbox record.
type Record struct {
	inbox.Record
	Dead        bool // its message is a dead letter
	ProcessedAt time.Time
}

// Attempt is what is known of a message that its consumer has tried and not processed.
type Attempt struct {
	Key     inbox.Key
	Count   int
	DueAt   time.Time
	FirstAt time.Time
	History []deadletter.Attempt
	Starts  int
}

// lastError returns the error of the last failed attempt.
func (a *Attempt) lastError() string {
	if n := len(a.History); n > 0 {
		return a.History[n-1].Error
	}
	return ""
}

// Lane is a lane, and its owner.
type Lane struct {
	Number int
	Epoch  int64
	Owner  string
	Since  time.Time
}

// Relay is a relay that has joined, and when its lease ends.
type Relay struct {
	Node           string
	Started, Until time.Time
	TTL            time.Duration // how long the lease is; 0 if it is not known
}

// Replay is a bulk replay: dead letters with a number above Passed, and up to UpTo, are still to be looked
// at.
type Replay struct {
	deadletter.Replay
	Passed, UpTo int64
}

// tried is a history with one more attempt; the second one makes room if it is full.
func tried(history []deadletter.Attempt, last deadletter.Attempt) []deadletter.Attempt {
	history = slices.Clone(history)
	if len(history) >= deadletter.MaxHistory {
		history = slices.Delete(history, 1, 2)
	}
	return append(history, last)
}

func orNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
