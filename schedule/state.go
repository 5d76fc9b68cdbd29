package schedule

import (
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
)

// Status says whether a schedule is active.
type Status string

// The kinds of [Status].
const (
	Active Status = "active"
	Paused Status = "paused"
	Ended  Status = "ended" // there is no further occurrence
)

// State is a schedule as a store keeps it.
type State struct {
	Recurring // complete; Paused is the current state

	// Version rises with each change. A change names the version that it replaces.
	Version int64

	NextAt     time.Time // planned time of the next occurrence; zero if paused or ended
	LastAt     time.Time // planned time of the latest one that was enqueued; zero if none was
	LastID     string    // id of its message
	Executions int       // occurrences enqueued, without those by hand
	Skipped    int       // occurrences skipped, by Overlap or CatchUp
}

// FirstVersion returns the version that a store gives a new schedule: a random number, so
// that a runner does not take a schedule that was removed and put again for the one it knows.
func FirstVersion() int64 { return 1 + rand.Int64N(1<<62) }

// Status returns the status of the schedule.
func (s *State) Status() Status {
	switch {
	case s.Paused:
		return Paused
	case s.NextAt.IsZero():
		return Ended
	}
	return Active
}

// occurrenceID returns the id of the message that is planned for a time.
func occurrenceID(name string, planned time.Time) string {
	return name + "@" + planned.UTC().Format(time.RFC3339)
}

// occurrence returns the message that is planned for a time.
func (s *State) occurrence(planned time.Time) waybill.Message {
	m := s.Message.Clone()
	m.ID, m.Time = occurrenceID(s.Name, planned), planned
	return m
}

// LastIdentity returns the identity of the message of the latest occurrence in the outbox.
func (s *State) LastIdentity() outbox.Identity {
	return outbox.Identity{Source: s.Message.Source, Tenant: s.Message.Tenant, ID: s.LastID}
}

// byHand returns the message of a run by hand at a time. Its id is never that of a planned time.
func (s *State) byHand(now time.Time) waybill.Message {
	m := s.occurrence(now)
	m.ID = s.Name + "@" + now.UTC().Format("2006-01-02T15:04:05.000000Z")
	return m
}

// pause stops a schedule, and reports whether it was active.
func (s *State) pause() bool {
	if s.Status() != Active {
		return false
	}
	s.Paused, s.NextAt = true, time.Time{}
	return true
}

// resume resumes a schedule from now, and reports whether it was paused.
func (s *State) resume(now time.Time) (bool, error) {
	if !s.Paused {
		return false, nil
	}
	c, err := calendarOf(&s.Recurring)
	if err != nil {
		return false, err
	}
	s.Paused, s.NextAt = false, s.next(&c, now)
	return true, nil
}

// next returns the first planned time after t, zero if the schedule ends before.
func (s *State) next(c *calendar, t time.Time) time.Time {
	if s.MaxExecutions > 0 && s.Executions >= s.MaxExecutions {
		return time.Time{}
	}
	return c.after(t)
}

// step is what is to be done about a schedule that is due.
type step struct {
	state   State
	changed bool             // whether the state has changed
	message *waybill.Message // to enqueue; nil for none
	skipped int
}

// maxSkips bounds the occurrences that one step skips. The next step continues.
const maxSkips = 10_000

// advance returns what is to be done about a schedule at a time: at most one occurrence, the
// oldest within the window, is enqueued. busy says that the message of the latest one is not yet
// published.
func advance(s State, now time.Time, busy bool) (step, error) {
	c, err := calendarOf(&s.Recurring)
	if err != nil {
		return step{}, err
	}
	st := step{state: s}
	for oldest := now.Add(-s.CatchUp); st.due(now) && st.state.NextAt.Before(oldest); {
		if st.skipped == maxSkips {
			return st, nil
		}
		st.skip(&c)
	}
	if !st.due(now) {
		return st, nil
	}
	switch {
	case busy && s.Overlap == Skip:
		st.skip(&c)
	case busy && s.Overlap == BufferOne:
		st.keepLatest(&c, now)
	default:
		st.enqueue(&c)
	}
	return st, nil
}

func (st *step) due(now time.Time) bool {
	return !st.state.NextAt.IsZero() && !st.state.NextAt.After(now)
}

func (st *step) skip(c *calendar) {
	st.state.NextAt = st.state.next(c, st.state.NextAt)
	st.state.Skipped++
	st.skipped++
	st.changed = true
}

// keepLatest skips what is due except the latest occurrence, which waits.
func (st *step) keepLatest(c *calendar, now time.Time) {
	for {
		next := st.state.next(c, st.state.NextAt)
		if next.IsZero() || next.After(now) || st.skipped == maxSkips {
			return
		}
		st.skip(c)
	}
}

func (st *step) enqueue(c *calendar) {
	s := &st.state
	m := s.occurrence(s.NextAt)
	st.message, st.changed = &m, true
	s.Executions++
	s.LastAt, s.LastID = s.NextAt, m.ID
	s.NextAt = s.next(c, s.NextAt)
}
