package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestCalendar_DaylightSaving looks at the days on which clocks are set forward and back: what names
// an hour follows the policy, and every hour that passes has one occurrence of an hourly schedule.
func TestCalendar_DaylightSaving(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		zone           string
		month          time.Month
		day            int
		cron           string
		once, skip, as []string
	}{
		{"Europe/Berlin", time.March, 29, "30 2 * * *", at("2026-03-29T01:30:00Z"), nil, nil},
		{"Europe/Berlin", time.March, 29, "30 3 * * *", at("2026-03-29T01:30:00Z"), at("2026-03-29T01:30:00Z"), at("2026-03-29T01:30:00Z")},
		{"Europe/Berlin", time.March, 29, "30 2,3 * * *", at("2026-03-29T01:30:00Z"), at("2026-03-29T01:30:00Z"), at("2026-03-29T01:30:00Z")},
		{"Europe/Berlin", time.October, 25, "30 2 * * *", at("2026-10-25T00:30:00Z"), at("2026-10-25T00:30:00Z"), at("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z")},
		{"Europe/Berlin", time.October, 25, "30 3 * * *", at("2026-10-25T02:30:00Z"), at("2026-10-25T02:30:00Z"), at("2026-10-25T02:30:00Z")},
		{"America/New_York", time.March, 8, "30 2 * * *", at("2026-03-08T07:30:00Z"), nil, nil},
		{"America/New_York", time.November, 1, "30 1 * * *", at("2026-11-01T05:30:00Z"), at("2026-11-01T05:30:00Z"), at("2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z")},
		{"Africa/Cairo", time.April, 24, "@daily", at("2026-04-23T22:00:00Z"), nil, nil}, // no midnight
	} {
		for change, want := range map[ClockChange][]string{"": tc.once, EachOnce: tc.once, SkipMissing: tc.skip, AsShown: tc.as} {
			c := calendarFor(t, Recurring{Cron: tc.cron, TimeZone: tc.zone, ClockChange: change})
			from := day(t, tc.zone, 2026, tc.month, tc.day)
			to := day(t, tc.zone, 2026, tc.month, tc.day+1).Add(-time.Second)
			if got := planned(&c, from.Add(-time.Second), to); !slices.Equal(got, want) {
				t.Errorf("%s %s on %v %d, policy %q: %v, want %v", tc.zone, tc.cron, tc.month, tc.day, change, got, want)
			}
			hourly := calendarFor(t, Recurring{Cron: "@hourly", TimeZone: tc.zone, ClockChange: change})
			if got, want := len(planned(&hourly, from.Add(-time.Second), to)), int(to.Add(time.Second).Sub(from)/time.Hour); got != want {
				t.Errorf("%s hourly on %v %d, policy %q: %d times, want %d", tc.zone, tc.month, tc.day, change, got, want)
			}
		}
	}
}

func at(times ...string) []string { return times }

// oddZones are zones and changes that are not of an hour at night, with a day shortly before each.
var oddZones = []struct {
	zone string
	day  time.Time
}{
	{"Australia/Lord_Howe", time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC)},   // half an hour back
	{"Australia/Lord_Howe", time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)},  // and forward
	{"Pacific/Apia", time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC)},        // a day that did not exist
	{"Pacific/Kwajalein", time.Date(1993, 8, 19, 0, 0, 0, 0, time.UTC)},    // the same
	{"America/Caracas", time.Date(2016, 4, 29, 0, 0, 0, 0, time.UTC)},      // half an hour, for good
	{"America/Sao_Paulo", time.Date(2017, 10, 14, 0, 0, 0, 0, time.UTC)},   // at midnight
	{"Antarctica/Troll", time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)},     // two hours
	{"Antarctica/Troll", time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)},    // two hours back
	{"Asia/Pyongyang", time.Date(2018, 5, 3, 0, 0, 0, 0, time.UTC)},        // half an hour before midnight
	{"Africa/Casablanca", time.Date(2026, 2, 13, 0, 0, 0, 0, time.UTC)},    // back for Ramadan
	{"Europe/Berlin", time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)},        // the usual one
	{"Europe/Berlin", time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)},       // and back
	{"America/St_Johns", time.Date(2006, 10, 28, 0, 0, 0, 0, time.UTC)},    // a minute after midnight
	{"America/Scoresbysund", time.Date(2024, 3, 30, 0, 0, 0, 0, time.UTC)}, // a change of zone and clock at once
}

// TestCalendar_OddZones compares the planned times with those found by looking at the clock in each
// minute of four days.
func TestCalendar_OddZones(t *testing.T) {
	t.Parallel()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	crons := []string{"30 2 * * *", "@hourly", "*/20 * * * *", "@daily", "*/10 0-3 * * *", "15 1,2 * * *", "30 23 * * *", "0 9 30 12 *"}
	for range 4 {
		crons = append(crons, randomCron(r))
	}
	for _, z := range oddZones {
		for _, cron := range crons {
			for _, change := range []ClockChange{EachOnce, SkipMissing, AsShown} {
				c := calendarFor(t, Recurring{Cron: cron, TimeZone: z.zone, ClockChange: change})
				to := z.day.Add(4 * 24 * time.Hour)
				if got, want := planned(&c, z.day.Add(-time.Second), to), watched(&c, z.day, to); !slices.Equal(got, want) {
					t.Errorf("%s from %v, %q, policy %q: %v, want %v", z.zone, z.day, cron, change, got, want)
				}
			}
		}
	}
}

// watched is what planned should return: it watches the clock from some hours before.
func watched(c *calendar, from, to time.Time) (list []string) {
	spec := c.cron.spec
	matches := func(shown time.Time) bool {
		return spec.Minute&(1<<shown.Minute()) != 0 && spec.Hour&(1<<shown.Hour()) != 0 && // quick, and true seldom
			spec.Next(shown.Add(-time.Second)).Equal(shown)
	}
	due := map[time.Time]bool{}
	start := from.Add(-4 * time.Hour)
	last := offsetAt(start, c.cron.zone)
	latest := start.Add(last - time.Minute) // that the clock has shown
	for now := start; !now.After(to); now = now.Add(time.Minute) {
		offset := offsetAt(now, c.cron.zone)
		shown := now.Add(offset)
		for left := now.Add(last); c.cron.change == EachOnce && left.Before(shown); left = left.Add(time.Minute) {
			if matches(left) { // the clock has jumped over it
				due[left.Add(-last)] = true
			}
		}
		if matches(shown) && (c.cron.change == AsShown || shown.After(latest)) {
			due[now] = true
		}
		if last = offset; shown.After(latest) {
			latest = shown
		}
		if due[now] && !now.Before(from) {
			list = append(list, now.Format(time.RFC3339))
		}
	}
	return list
}

// TestCalendar_EveryZone: no expression is looked for without end, in any zone.
func TestCalendar_EveryZone(t *testing.T) {
	t.Parallel()
	never := calendarFor(t, Recurring{Cron: "0 0 30 2 *", TimeZone: "Africa/Casablanca"})
	if got := never.after(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); !got.IsZero() {
		t.Errorf("30 February comes at %v", got)
	}
	for _, z := range oddZones {
		c := calendarFor(t, Recurring{Cron: "0 0 1 1 *", TimeZone: z.zone})
		zone := c.cron.zone
		for year := 1900; year < 2200; year++ {
			from := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
			got := c.after(from)
			if shown := got.In(zone); got.IsZero() || shown.YearDay() != 1 || shown.Year() != year+1 || shown.Hour() > 1 {
				t.Errorf("%s: after %v comes %v, want the new year", z.zone, from, shown)
			}
		}
	}
}
