package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// calendar knows the planned times of a schedule.
type calendar struct {
	cron       cron.Schedule // nil with an interval
	zone       *time.Location
	every      time.Duration
	start, end time.Time // end is zero for none
}

// calendarOf returns the calendar of a complete schedule. The error names the field.
func calendarOf(r *Recurring) (c calendar, err error) {
	c = calendar{every: r.Every, start: r.Start, end: r.End}
	if c.zone, err = time.LoadLocation(r.TimeZone); err != nil || r.TimeZone == "Local" {
		return c, invalid("TimeZone", "is none that is known here; it must be an IANA name such as Europe/Berlin")
	}
	switch {
	case (r.Cron == "") == (r.Every == 0):
		return c, invalid("Cron", "either Cron or Every is required, and not both")
	case r.Cron != "":
		c.cron, err = parse(r.Cron)
	case r.Every < MinEvery || r.Every%time.Second != 0:
		err = invalid("Every", fmt.Sprintf("is %v, it must be at least %v, in whole seconds", r.Every, MinEvery))
	}
	return c, err
}

// parse reads an expression without what has a field of its own here.
func parse(expression string) (cron.Schedule, error) {
	switch {
	case len(expression) > MaxCronLen:
		return nil, invalid("Cron", fmt.Sprintf("has %d bytes, the limit is %d", len(expression), MaxCronLen))
	case strings.Contains(expression, "TZ="):
		return nil, invalid("Cron", "names a time zone; TimeZone does that")
	case strings.HasPrefix(expression, "@every"):
		return nil, invalid("Cron", "has @every; Every does that")
	}
	s, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, invalid("Cron", err.Error())
	}
	return s, nil
}

// after returns the first planned time after t, in UTC, or the zero time if there is none.
func (c *calendar) after(t time.Time) time.Time {
	var next time.Time
	switch {
	case c.cron != nil:
		if t.Before(c.start) {
			t = c.start.Add(-time.Second)
		}
		next = c.cron.Next(t.In(c.zone)) // zero if there is none within five years
	case t.Before(c.start):
		next = c.start
	default:
		next = c.start.Add((t.Sub(c.start)/c.every + 1) * c.every)
	}
	if !c.end.IsZero() && next.After(c.end) {
		return time.Time{}
	}
	return next.UTC()
}
