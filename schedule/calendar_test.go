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

func TestCalendar_LeapDay(t *testing.T) {
	t.Parallel()
	c := calendarFor(t, Recurring{Cron: "0 12 29 2 *", TimeZone: "Europe/Berlin"})
	want := []string{"2028-02-29T11:00:00Z", "2032-02-29T11:00:00Z"}
	if got := planned(&c, day(t, "UTC", 2026, time.January, 1), day(t, "UTC", 2033, time.January, 1)); !slices.Equal(got, want) {
		t.Errorf("planned = %v, want %v", got, want)
	}
	want = []string{"2096-02-29T11:00:00Z", "2104-02-29T11:00:00Z"}
	if got := planned(&c, day(t, "UTC", 2095, time.January, 1), day(t, "UTC", 2105, time.January, 1)); !slices.Equal(got, want) {
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

// TestCalendar_Cron holds the planned times against those that the library itself computes, where
// clocks are never changed, and walks from one to the next by steps of another length.
func TestCalendar_Cron(t *testing.T) {
	t.Parallel()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	zones := []string{"UTC", "Asia/Kathmandu", "America/Phoenix"}
	for range 400 {
		expression := randomCron(r)
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

func randomCron(r *rand.Rand) string {
	return strings.Join([]string{field(r, 0, 59), field(r, 0, 23), field(r, 1, 28), field(r, 1, 12), field(r, 0, 6)}, " ")
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

// TestCalendar_FarAway goes beyond the 292 years that a Duration can hold, and up to the year 9999.
func TestCalendar_FarAway(t *testing.T) {
	t.Parallel()
	start := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	daily := calendarFor(t, Recurring{Every: 24 * time.Hour, Start: start})
	at := time.Date(2600, 5, 6, 7, 8, 9, 0, time.UTC)
	if got, want := daily.after(at), time.Date(2600, 5, 7, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("after %v: %v, want %v", at, got, want)
	}
	long := calendarFor(t, Recurring{Every: 200 * 365 * 24 * time.Hour, Start: start})
	if got := long.after(start.Add(250 * 365 * 24 * time.Hour)); got.Year() < 2300 {
		t.Errorf("two long intervals after %v come at %v", start, got)
	}
	for _, c := range []calendar{daily, calendarFor(t, Recurring{Cron: "@hourly", TimeZone: "Europe/Berlin"})} {
		last := time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
		if got := c.after(last); !got.IsZero() {
			t.Errorf("after %v: %v, want none", last, got)
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
		{"ClockChange", func(r *Recurring) { r.ClockChange = "never" }},
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
