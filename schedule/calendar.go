package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxYear is the year of the latest planned time: messages cannot represent later ones.
const maxYear = 9999

// calendar computes the planned times of a schedule.
type calendar struct {
	cron       *crontab // nil with an interval
	every      time.Duration
	start, end time.Time // end is zero for none
}

// calendarOf returns the calendar of a complete schedule. The error names the field.
func calendarOf(r *Recurring) (calendar, error) {
	c := calendar{every: r.Every, start: r.Start, end: r.End}
	zone, err := time.LoadLocation(r.TimeZone)
	if err != nil || r.TimeZone == "Local" {
		return c, invalid("TimeZone", "is none that is known here; it must be an IANA name such as Europe/Berlin")
	}
	switch {
	case (r.Cron == "") == (r.Every == 0):
		return c, invalid("Cron", "either Cron or Every is required, and not both")
	case r.Cron != "":
		spec, err := parse(r.Cron)
		if err != nil {
			return c, err
		}
		tab := newCrontab(spec, zone, cmp.Or(r.ClockChange, EachOnce))
		c.cron = &tab
	case r.Every < MinEvery || r.Every%time.Second != 0:
		return c, invalid("Every", fmt.Sprintf("is %v, it must be at least %v, in whole seconds", r.Every, MinEvery))
	}
	return c, nil
}

// parse reads an expression without the parts that have a separate field here.
func parse(expression string) (*cron.SpecSchedule, error) {
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
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, invalid("Cron", "is not made of the five usual fields")
	}
	return spec, nil
}

// after returns the first planned time after t, in UTC, or the zero time if there is none before the
// year 10000.
func (c *calendar) after(t time.Time) time.Time {
	if t.Before(c.start) {
		t = c.start.Add(-time.Second)
	}
	var next time.Time
	if c.cron != nil {
		next = c.cron.after(t)
	} else {
		next = c.interval(t)
	}
	if next.Year() > maxYear || !c.end.IsZero() && next.After(c.end) {
		return time.Time{}
	}
	return next.UTC()
}

// interval counts in seconds: a Duration ends after 292 years.
func (c *calendar) interval(t time.Time) time.Time {
	start, every := c.start.Unix(), int64(c.every/time.Second)
	passed := (t.Unix() - start) / every
	if t.Before(c.start) {
		passed = -1
	}
	return time.Unix(start+(passed+1)*every, 0)
}
