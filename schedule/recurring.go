package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// Overlap says what to do with an occurrence that is due while the message of the previous one is
// not yet published: in the outbox, or waiting for another attempt. What consumers do with a
// published message is not known here: a handler that still runs is no overlap.
type Overlap string

// The kinds of [Overlap].
const (
	Allow     Overlap = "allow"      // it is enqueued anyway
	Skip      Overlap = "skip"       // it is skipped and counted
	BufferOne Overlap = "buffer_one" // the latest such occurrence waits, those before it are skipped and counted
)

// Limits and defaults of a [Recurring] schedule.
const (
	MaxNameLen     = 200 // bytes of a name: with the planned time it makes an id
	MaxCronLen     = 255 // bytes of an expression
	MinEvery       = time.Second
	MinCatchUp     = time.Second
	DefaultCatchUp = time.Hour
)

// Recurring is a recurring schedule: a message that is enqueued repeatedly.
type Recurring struct {
	// Name identifies the schedule, in its tables and in the ids of its messages. At most
	// [MaxNameLen] bytes. Required.
	Name string `json:"name"`

	// Cron is a cron expression: the five usual fields (minute, hour, day of the month, month, day of the
	// week) or @hourly, @daily, @weekly, @monthly or @yearly. Either Cron or Every is required.
	Cron string `json:"cron,omitempty"`

	// Every is the time from one occurrence to the next, in whole seconds, counted from Start.
	Every time.Duration `json:"every,omitempty"`

	// TimeZone is the IANA name of the time zone of Cron, such as Europe/Berlin.
	// Optional; the default is UTC.
	TimeZone string `json:"time_zone,omitempty"`

	// ClockChange is the policy for the times of Cron that the clocks of the time zone skip or repeat
	// when they are set forward or back. Optional; the default is [EachOnce].
	ClockChange ClockChange `json:"clock_change,omitempty"`

	// Message is what each occurrence enqueues. ID, IdempotencyKey, Time, DeliverAt and ExpiresAt
	// must be empty: the id is made of the name and the planned time, which is also the
	// message's Time.
	Message waybill.Message `json:"message"`

	// Start is the earliest planned time. Optional; the default is when the schedule is put for
	// the first time. Kept to the second.
	Start time.Time `json:"start,omitzero"`

	// End is the latest planned time. Optional; the default is none. Kept to the second.
	End time.Time `json:"end,omitzero"`

	// MaxExecutions is how many occurrences are enqueued before the schedule ends. What is
	// skipped, or run by hand, does not count. Optional; the default 0 is any number.
	MaxExecutions int `json:"max_executions,omitempty"`

	// Overlap is the policy for an occurrence whose predecessor is not yet published. Optional;
	// the default is [Allow].
	Overlap Overlap `json:"overlap"`

	// CatchUp is how late an occurrence may be enqueued, for example because no runner was running.
	// Each one within it is enqueued, the oldest first; older ones are skipped and counted. At
	// least [MinCatchUp]. Optional; the default is [DefaultCatchUp].
	CatchUp time.Duration `json:"catch_up"`

	// Paused creates a new schedule paused. An existing one is not changed.
	Paused bool `json:"-"`
}

// complete returns the schedule with its defaults, except Start.
func (r Recurring) complete() Recurring {
	r.TimeZone = cmp.Or(r.TimeZone, "UTC")
	r.ClockChange = cmp.Or(r.ClockChange, EachOnce)
	r.Overlap = cmp.Or(r.Overlap, Allow)
	r.CatchUp = cmp.Or(r.CatchUp, DefaultCatchUp)
	r.Start, r.End = toSecond(r.Start), toSecond(r.End)
	return r
}

func toSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// check returns an error that names the first invalid field of a complete schedule.
func (r *Recurring) check() error {
	switch {
	case r.Name == "":
		return invalid("Name", "is required")
	case len(r.Name) > MaxNameLen:
		return invalid("Name", fmt.Sprintf("has %d bytes, the limit is %d", len(r.Name), MaxNameLen))
	case !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, func(c rune) bool { return c < 0x20 || c == 0x7f }):
		return invalid("Name", "has a control character or invalid UTF-8")
	case r.MaxExecutions < 0:
		return invalid("MaxExecutions", "is negative")
	case r.Overlap != Allow && r.Overlap != Skip && r.Overlap != BufferOne:
		return invalid("Overlap", fmt.Sprintf("must be %q, %q or %q", Allow, Skip, BufferOne))
	case r.ClockChange != EachOnce && r.ClockChange != SkipMissing && r.ClockChange != AsShown:
		return invalid("ClockChange", fmt.Sprintf("must be %q, %q or %q", EachOnce, SkipMissing, AsShown))
	case r.CatchUp < MinCatchUp:
		return invalid("CatchUp", fmt.Sprintf("is %v, it must be at least %v", r.CatchUp, MinCatchUp))
	case !r.End.IsZero() && !r.End.After(r.Start):
		return invalid("End", "is not after Start")
	case !r.Start.IsZero() && (r.Start.Year() < 1970 || r.Start.Year() > maxYear):
		return invalid("Start", "must be in the years 1970 to 9999")
	case r.End.Year() > maxYear:
		return invalid("End", "must be before the year 10000")
	}
	if err := r.checkMessage(); err != nil {
		return err
	}
	_, err := calendarOf(r)
	return err
}

// checkMessage refuses what differs from one occurrence to the next.
func (r *Recurring) checkMessage() error {
	m := &r.Message
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ID", m.ID != ""}, {"IdempotencyKey", m.IdempotencyKey != ""},
		{"Time", !m.Time.IsZero()}, {"DeliverAt", !m.DeliverAt.IsZero()}, {"ExpiresAt", !m.ExpiresAt.IsZero()},
	} {
		if f.set {
			return invalid("Message."+f.name, "is set; each occurrence has its own")
		}
	}
	return nil
}

// sameTimes reports whether two complete schedules plan the same times. An empty Start of the
// newer one stands for that of the older one.
func sameTimes(older, newer *Recurring) bool {
	return older.Cron == newer.Cron && older.Every == newer.Every && older.TimeZone == newer.TimeZone &&
		cmp.Or(older.ClockChange, EachOnce) == newer.ClockChange &&
		older.End.Equal(newer.End) && older.MaxExecutions == newer.MaxExecutions &&
		(newer.Start.IsZero() || older.Start.Equal(newer.Start))
}

func invalid(field, reason string) error { return &waybill.InvalidError{Field: field, Reason: reason} }
