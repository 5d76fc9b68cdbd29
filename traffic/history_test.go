package traffic

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

var start = time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)

func row(step time.Duration, at time.Time, writer string, topic string, n int) Row {
	return Row{Step: step, At: at, Writer: writer, Data: fmt.Appendf(nil, `{"topics":{%q:{"published":%d,"backlog":%d}}}`, topic, n, n)}
}

func TestLoad_FillsGaps(t *testing.T) {
	t.Parallel()
	s := &shelf{rows: []Row{
		row(Minute, start, "a", "orders", 1),
		row(Minute, start, "b", "orders", 2),
		row(Minute, start.Add(2*time.Minute), "a", "mails", 4),
		row(Minute, start.Add(4*time.Minute), "a", "orders", 8), // not over
		row(Minute, start.Add(-time.Minute), "a", "orders", 16),
	}}
	h, err := Load(t.Context(), s, 4*time.Minute, start.Add(4*time.Minute+30*time.Second))
	if err != nil || h.From != start || h.Step != Minute {
		t.Fatalf("Load() = %+v, %v", h, err)
	}
	var got []string
	for _, c := range h.Of(Selection{}) {
		got = append(got, fmt.Sprint(c.Published, "/", c.Backlog))
	}
	if want := []string{"3/2", "0/0", "4/4", "0/0"}; !reflect.DeepEqual(got, want) {
		t.Errorf("published/backlog = %v, want %v", got, want)
	}
	if names := h.Names(); !reflect.DeepEqual(names.Topics, []string{"mails", "orders"}) {
		t.Errorf("Names() = %+v", names)
	}
	// A minute may be recorded a few seconds late.
	h, err = Load(t.Context(), s, 4*time.Minute, start.Add(4*time.Minute+5*time.Second))
	if err != nil || h.From != start.Add(-time.Minute) {
		t.Errorf("Load() right after a minute begins at %v, %v, want a minute before", h.From, err)
	}
}

func TestLoad_AddsUpSteps(t *testing.T) {
	t.Parallel()
	s := &shelf{rows: []Row{
		row(Hour, start, "a", "orders", 1),
		row(TenMinutes, start.Add(20*time.Minute), "b", "orders", 2),
		row(Minute, start.Add(59*time.Minute), "c", "orders", 4),
	}}
	h, err := Load(t.Context(), s, 100*time.Hour, start.Add(time.Hour+time.Minute))
	if err != nil || h.Step != Hour || len(h.Intervals) != 100 {
		t.Fatalf("Load() = %v, %d intervals, %v", h.Step, len(h.Intervals), err)
	}
	if last := h.Of(Selection{Topic: "orders"})[99]; last.Published != 7 || last.Backlog != 4 {
		t.Errorf("the last hour = %+v, want the sum, and the largest backlog", last)
	}
}

func TestLoad_Refuses(t *testing.T) {
	t.Parallel()
	for _, since := range []time.Duration{-1, 0, Minute - 1, Retention + 1} {
		if _, err := Load(t.Context(), &shelf{}, since, start); err == nil {
			t.Errorf("Load(%v) = nil, want an error", since)
		}
	}
	for _, since := range []time.Duration{Minute, Retention} {
		if _, err := Load(t.Context(), &shelf{}, since, start); err != nil {
			t.Errorf("Load(%v) = %v", since, err)
		}
	}
	broken := &shelf{rows: []Row{{Step: Minute, At: start, Writer: "a", Data: []byte("[")}}}
	if _, err := Load(t.Context(), broken, time.Hour, start.Add(2*Minute)); err == nil {
		t.Error("Load() of a broken row = nil, want an error")
	}
}

// TestStepFor: what is shown in fine steps is kept in them for as long as it is shown.
func TestStepFor(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]time.Duration{
		Minute: Minute, time.Hour: Minute, 109 * time.Minute: Minute, 110 * time.Minute: TenMinutes,
		24 * time.Hour: TenMinutes, 47 * time.Hour: Hour, 7 * 24 * time.Hour: Hour,
	} {
		if got := StepFor(since); got != want {
			t.Errorf("StepFor(%v) = %v, want %v", since, got, want)
		}
	}
}

// TestRollUp_KeepsSums: the figures of each hour are the same before and after each roll-up, until they are removed.
func TestRollUp_KeepsSums(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	for n := range 5 * 60 {
		for _, writer := range []string{"a", "b"} {
			s.rows = append(s.rows, row(Minute, start.Add(time.Duration(n)*time.Minute), writer, "orders", n))
		}
	}
	sums := func() (list []int64) {
		h, err := Load(t.Context(), s, 400*24*time.Hour-34*24*time.Hour, start.Add(300*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range h.Of(Selection{}) {
			if c.Published > 0 {
				list = append(list, c.Published)
			}
		}
		return list
	}
	want := sums()
	for _, tc := range []struct {
		after              time.Duration
		minutes, tens, all int
	}{
		{5 * time.Hour, 2 * 2 * 60, 18, 258}, {8 * time.Hour, 0, 30, 30}, {50 * time.Hour, 0, 18, 20}, {60 * time.Hour, 0, 0, 5}, {300 * 24 * time.Hour, 0, 0, 5},
	} {
		if err := RollUp(t.Context(), s, start.Add(tc.after)); err != nil {
			t.Fatal(err)
		}
		steps := map[time.Duration]int{}
		for _, r := range s.rows {
			steps[r.Step]++
		}
		if steps[Minute] != tc.minutes || steps[TenMinutes] != tc.tens || len(s.rows) != tc.all {
			t.Errorf("after %v rows by step = %v, want %d minutes, %d of ten, %d in all", tc.after, steps, tc.minutes, tc.tens, tc.all)
		}
		if got := sums(); !reflect.DeepEqual(got, want) {
			t.Errorf("after %v sums of hours = %v, want %v", tc.after, got, want)
		}
	}
	if err := RollUp(t.Context(), s, start.Add(Retention+6*time.Hour)); err != nil || len(s.rows) > 0 {
		t.Errorf("RollUp() after the retention = %v, %d rows are left", err, len(s.rows))
	}
}

// TestInterval_Encode: what is stored of an interval is read again, also if it is long.
func TestInterval_Encode(t *testing.T) {
	t.Parallel()
	for _, names := range []int{0, 1, maxNames} {
		var want Interval
		for n := range names {
			want.count(fmt.Sprint("topic-", n), "billing", "", Counts{Handled: int64(n), HandleLag: Histogram{0, int64(n)}})
		}
		data, err := want.Encode()
		if err != nil || len(data) > 20_000 {
			t.Fatalf("Encode() of %d names = %d bytes, %v", names, len(data), err)
		}
		got, err := decode(Row{Data: data})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decode() of %d names = %+v, %v, want %+v", names, got, err, want)
		}
	}
}

// TestRollUp_LateRow: what a process records after its minute was merged is merged, too.
func TestRollUp_LateRow(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	for n := range 3 {
		s.rows = append(s.rows, row(Minute, start.Add(time.Duration(n)*time.Minute), "a", "orders", 1))
		if err := RollUp(t.Context(), s, start.Add(3*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Load(t.Context(), s, 10*time.Hour, start.Add(5*time.Hour))
	if got := h.Total(Selection{}).Published; err != nil || got != 3 {
		t.Errorf("%d messages are counted, %v, want 3", got, err)
	}
}
