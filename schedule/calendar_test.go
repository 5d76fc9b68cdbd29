package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/waybill-go/waybill"
)

func calendarFor(t *testing.T, r Recurring) calendar {
	t.Helper()
	r = r.complete()
	c, err := calendarOf(&r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// planned returns the planned times after from, up to and with to, in RFC 3339.
func planned(c *calendar, from, to time.Time) (list []string) {
	for next := c.after(from); !next.IsZero() && !next.After(to); next = c.after(next) {
		list = append(list, next.Format(time.RFC3339))
	}
	return list
}

func day(t *testing.T, zone string, year int, month time.Month, d int) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(year, month, d, 0, 0, 0, 0, loc)
}

// TestCalendar_DaylightSaving looks at the days on which clocks are put forward and back: what is
// planned in the hour that is left out does not come, in the hour that is repeated it comes
// twice, and every hour that passes has one occurrence of an hourly schedule.
func TestCalendar_DaylightSaving(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		zone  string
		month time.Month
		day   int
		cron  string
		want  []string
	}{
		{"Europe/Berlin", time.March, 29, "30 2 * * *", nil},
		{"Europe/Berlin", time.March, 29, "30 3 * * *", []string{"2026-03-29T01:30:00Z"}},
		{"Europe/Berlin", time.October, 25, "30 2 * * *", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}},
		{"Europe/Berlin", time.October, 25, "30 3 * * *", []string{"2026-10-25T02:30:00Z"}},
		{"America/New_York", time.March, 8, "30 2 * * *", nil},
		{"America/New_York", time.March, 8, "30 3 * * *", []string{"2026-03-08T07:30:00Z"}},
		{"America/New_York", time.November, 1, "30 1 * * *", []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"}},
		{"America/New_York", time.November, 1, "30 2 * * *", []string{"2026-11-01T07:30:00Z"}},
	} {
		c := calendarFor(t, Recurring{Cron: tc.cron, TimeZone: tc.zone})
		from := day(t, tc.zone, 2026, tc.month, tc.day)
		to := day(t, tc.zone, 2026, tc.month, tc.day+1).Add(-time.Second)
		if got := planned(&c, from.Add(-time.Second), to); !slices.Equal(got, tc.want) {
			t.Errorf("%s %s on %v %d: %v, want %v", tc.zone, tc.cron, tc.month, tc.day, got, tc.want)
		}
		hourly := calendarFor(t, Recurring{Cron: "@hourly", TimeZone: tc.zone})
		if got, want := len(planned(&hourly, from.Add(-time.Second), to)), int(to.Add(time.Second).Sub(from)/time.Hour); got != want {
			t.Errorf("%s hourly on %v %d: %d times, want %d", tc.zone, tc.month, tc.day, got, want)
		}
	}
}

func TestCalendar_LeapDay(t *testing.T) {
	t.Parallel()
	c := calendarFor(t, Recurring{Cron: "0 12 29 2 *", TimeZone: "Europe/Berlin"})
	want := []string{"2028-02-29T11:00:00Z", "2032-02-29T11:00:00Z"}
	if got := planned(&c, day(t, "UTC", 2026, time.January, 1), day(t, "UTC", 2033, time.January, 1)); !slices.Equal(got, want) {
		t.Errorf("planned = %v, want %v", got, want)
	}
	c = calendarFor(t, Recurring{Cron: "@daily"})
	want = []string{"2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"}
	if got := planned(&c, day(t, "UTC", 2028, time.February, 28), day(t, "UTC", 2028, time.March, 1)); !slices.Equal(got, want) {
		t.Errorf("planned = %v, want %v", got, want)
	}
}

// field returns a random field of a cron expression.
func field(r *rand.Rand, low, high int) string {
	at := func() int { return low + r.IntN(high-low+1) }
	switch r.IntN(4) {
	case 0:
		return "*"
	case 1:
		return fmt.Sprint(at())
	case 2:
		return fmt.Sprintf("*/%d", 1+r.IntN(high))
	}
	a, b := at(), at()
	return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
}

// TestCalendar_Cron holds the planned times against those that the library itself computes,
// and walks from one to the next by steps of another length.
func TestCalendar_Cron(t *testing.T) {
	t.Parallel()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Africa/Cairo"}
	for range 400 {
		expression := strings.Join([]string{field(r, 0, 59), field(r, 0, 23), field(r, 1, 28), field(r, 1, 12), field(r, 0, 6)}, " ")
		zone := zones[r.IntN(len(zones))]
		c := calendarFor(t, Recurring{Cron: expression, TimeZone: zone})
		theirs, err := cron.ParseStandard("CRON_TZ=" + zone + " " + expression)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(365*24*60)) * time.Minute)
		for range 20 {
			next := c.after(from)
			if want := theirs.Next(from); !next.Equal(want) {
				t.Fatalf("%s %q after %v: %v, want %v", zone, expression, from, next, want)
			}
			if between := from.Add(next.Sub(from) / 2); !next.IsZero() && !c.after(between).Equal(next) {
				t.Fatalf("%s %q: after %v comes %v, and after %v in between %v", zone, expression, from, next, between, c.after(between))
			}
			from = next
		}
	}
}

func TestCalendar_Every(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := calendarFor(t, Recurring{Every: 90 * time.Minute, Start: start, End: start.Add(3 * time.Hour)})
	for _, tc := range []struct {
		after, want time.Duration // from the start; want is negative for never
	}{
		{-time.Hour, 0}, {-time.Nanosecond, 0}, {0, 90 * time.Minute}, {time.Nanosecond, 90 * time.Minute},
		{89 * time.Minute, 90 * time.Minute}, {90 * time.Minute, 180 * time.Minute}, {180 * time.Minute, -1},
	} {
		got := c.after(start.Add(tc.after))
		if tc.want < 0 && !got.IsZero() || tc.want >= 0 && !got.Equal(start.Add(tc.want)) {
			t.Errorf("after %v: %v, want %v behind the start", tc.after, got, tc.want)
		}
	}
}

func TestCalendar_CronStart(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := calendarFor(t, Recurring{Cron: "@hourly", Start: start})
	if got := c.after(start.Add(-48 * time.Hour)); !got.Equal(start) {
		t.Errorf("first = %v, want the start itself, %v", got, start)
	}
}

func TestRecurring_Check(t *testing.T) {
	t.Parallel()
	good := func() Recurring {
		return Recurring{Name: "sweep", Cron: "@daily", Message: waybill.Message{Topic: "orders"}}
	}
	now := time.Now()
	for _, tc := range []struct {
		field  string
		change func(r *Recurring)
	}{
		{"", func(*Recurring) {}},
		{"Name", func(r *Recurring) { r.Name = "" }},
		{"Name", func(r *Recurring) { r.Name = strings.Repeat("x", MaxNameLen+1) }},
		{"Name", func(r *Recurring) { r.Name = "a\nb" }},
		{"Cron", func(r *Recurring) { r.Cron = "" }},
		{"Cron", func(r *Recurring) { r.Every = time.Hour }},
		{"Cron", func(r *Recurring) { r.Cron = "61 * * * *" }},
		{"Cron", func(r *Recurring) { r.Cron = "* * * * * *" }},
		{"Cron", func(r *Recurring) { r.Cron = "TZ=" }},
		{"Cron", func(r *Recurring) { r.Cron = "CRON_TZ=UTC @daily" }},
		{"Cron", func(r *Recurring) { r.Cron = "@every 1h" }},
		{"Cron", func(r *Recurring) { r.Cron = strings.Repeat("1,", MaxCronLen) }},
		{"Every", func(r *Recurring) { r.Cron, r.Every = "", 1500*time.Millisecond }},
		{"Every", func(r *Recurring) { r.Cron, r.Every = "", -time.Hour }},
		{"TimeZone", func(r *Recurring) { r.TimeZone = "Europe/Nowhere" }},
		{"TimeZone", func(r *Recurring) { r.TimeZone = "Local" }},
		{"Start", func(r *Recurring) { r.Start = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"End", func(r *Recurring) { r.Start, r.End = now, now }},
		{"MaxExecutions", func(r *Recurring) { r.MaxExecutions = -1 }},
		{"Overlap", func(r *Recurring) { r.Overlap = "cancel" }},
		{"CatchUp", func(r *Recurring) { r.CatchUp = time.Millisecond }},
		{"Message.ID", func(r *Recurring) { r.Message.ID = "a" }},
		{"Message.IdempotencyKey", func(r *Recurring) { r.Message.IdempotencyKey = "a" }},
		{"Message.Time", func(r *Recurring) { r.Message.Time = now }},
		{"Message.DeliverAt", func(r *Recurring) { r.Message.DeliverAt = now }},
		{"Message.ExpiresAt", func(r *Recurring) { r.Message.ExpiresAt = now }},
	} {
		r := good()
		tc.change(&r)
		r = r.complete()
		err := r.check()
		if tc.field == "" && err != nil || tc.field != "" && (err == nil || !strings.HasPrefix(err.Error(), "waybill: invalid "+tc.field+":")) {
			t.Errorf("check() = %v, want an error about %q", err, tc.field)
		}
	}
}
