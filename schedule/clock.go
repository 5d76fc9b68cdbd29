package schedule

import (
	"time"

	"github.com/robfig/cron/v3"
)

// ClockChange says what happens to planned times when the clocks of the schedule's time zone are
// put forward, which skips some times, or back, which repeats some.
//
// It applies to expressions that name hours. An expression for every hour of the day always follows
// the clock: an hourly one has one occurrence in each hour that passes.
type ClockChange string

// The kinds of [ClockChange]. [EachOnce] is how calendars (RFC 5545) interpret such times.
const (
	EachOnce    ClockChange = "once"     // a skipped time occurs by the old offset: 2:30 at 3:30; a repeated one the first time
	SkipMissing ClockChange = "skip"     // a skipped time does not occur; a repeated one the first time
	AsShown     ClockChange = "as_shown" // whenever the clocks show it: not at all, or twice
)

// How far the next planned time is searched for: 29 February is at most eight years away. The
// library searches five years at once.
const (
	searchYears  = 9
	libraryYears = 5
)

const allHours = 1<<24 - 1

// crontab is an expression in a time zone.
type crontab struct {
	spec   *cron.SpecSchedule
	zone   *time.Location
	change ClockChange
}

func newCrontab(spec *cron.SpecSchedule, zone *time.Location, change ClockChange) crontab {
	if spec.Hour&allHours == allHours {
		change = AsShown
	}
	return crontab{spec: spec, zone: zone, change: change}
}

// after returns the first planned time after t, or the zero time if there is none within nine years.
func (c *crontab) after(t time.Time) time.Time {
	from := t.Truncate(time.Second).Add(time.Second)
	for until := from.AddDate(searchYears, 0, 0); from.Before(until); {
		p := periodAt(from, c.zone)
		if next := c.within(p, from); !next.IsZero() {
			return next
		}
		from = from.AddDate(libraryYears, 0, 0)
		if !p.end.IsZero() && p.end.Before(from) {
			from = p.end
		}
	}
	return time.Time{}
}

// period is a time in which the offset of a zone from UTC stays the same.
type period struct {
	start, end time.Time // start is part of it; zero if it has none
	offset     time.Duration
	before     time.Duration // the offset of the period before
}

func periodAt(t time.Time, zone *time.Location) period {
	p := period{offset: offsetAt(t, zone)}
	p.start, p.end = t.In(zone).ZoneBounds()
	if !p.end.IsZero() && !p.end.After(t) { // what Go says on the last day of a leap year
		p.end = t.Add(24 * time.Hour)
	}
	p.before = p.offset
	if !p.start.IsZero() {
		p.before = offsetAt(p.start.Add(-time.Second), zone)
	}
	return p
}

func offsetAt(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// within returns the first planned time of a period that is not before from, or the zero time.
func (c *crontab) within(p period, from time.Time) time.Time {
	next := c.shown(p, from)
	if p.before < p.offset && c.change == EachOnce {
		next = earliest(next, c.missing(p, from))
	}
	if !p.end.IsZero() && !next.Before(p.end) {
		return time.Time{}
	}
	return next
}

// shown returns the first matching time that the clock shows in the period, or would show after it.
// A time of the clock is represented as if it were UTC.
func (c *crontab) shown(p period, from time.Time) time.Time {
	first := from.UTC().Add(p.offset)
	if again := p.start.UTC().Add(p.before); c.change != AsShown && p.before > p.offset && first.Before(again) {
		first = again
	}
	return less(c.match(first), p.offset)
}

// missing returns the first of the times that the clock has skipped before the period, by the
// offset from before.
func (c *crontab) missing(p period, from time.Time) time.Time {
	next := c.match(from.UTC().Add(p.before))
	if !next.Before(p.start.UTC().Add(p.offset)) {
		return time.Time{}
	}
	return less(next, p.before)
}

// match returns the first time of the clock that matches and is not before first.
func (c *crontab) match(first time.Time) time.Time {
	return c.spec.Next(first.Add(-time.Second))
}

func less(t time.Time, offset time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-offset)
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
