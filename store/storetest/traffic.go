package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/traffic"
)

func trafficTests[Tx any]() []test[Tx] {
	needs := []need{keepsTraffic}
	return []test[Tx]{
		{"none", trafficNone[Tx], needs},
		{"rows of a step and a time, in order", trafficListed[Tx], needs},
		{"added once", trafficOnce[Tx], needs},
		{"replaced by a sum", trafficReplaced[Tx], needs},
		{"removed", trafficRemoved[Tx], needs},
		{"nothing is replaced if a row is gone", trafficGone[Tx], needs},
		{"two roll up at once", trafficRace[Tx], needs},
	}
}

func keepsTraffic(f Features) bool { return f.Traffic }

// trafficStart is a full hour.
var trafficStart = time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)

func (e *env[Tx]) traffic() traffic.Store {
	e.Helper()
	s, ok := any(e.s).(traffic.Store)
	if !ok {
		e.Fatal("the store is no traffic.Store")
	}
	return s
}

// minuteRow returns a row of a minute after the start that counts n messages as published.
func minuteRow(after int, writer string, n int) traffic.Row {
	return traffic.Row{
		Step: traffic.Minute, At: trafficStart.Add(time.Duration(after) * time.Minute), Writer: writer,
		Data: fmt.Appendf(nil, `{"topics":{"orders":{"published":%d}}}`, n),
	}
}

func (e *env[Tx]) addTraffic(rows ...traffic.Row) {
	e.Helper()
	for _, r := range rows {
		e.must(e.traffic().AddTraffic(e.ctx, r), "AddTraffic")
	}
}

func (e *env[Tx]) listTraffic(step time.Duration, from, to time.Time) []traffic.Row {
	e.Helper()
	rows, err := e.traffic().Traffic(e.ctx, step, from, to)
	e.must(err, "Traffic")
	if rows == nil {
		e.Fatal("Traffic() = nil, want a slice")
	}
	return rows
}

// wantTraffic checks the rows of a step.
func (e *env[Tx]) wantTraffic(step time.Duration, want ...traffic.Row) {
	e.Helper()
	e.sameTraffic(e.listTraffic(step, trafficStart, trafficStart.Add(24*time.Hour)), want)
}

func (e *env[Tx]) sameTraffic(got, want []traffic.Row) {
	e.Helper()
	if !slices.EqualFunc(got, want, func(a, b traffic.Row) bool {
		return a.Step == b.Step && a.At == b.At && a.Writer == b.Writer && string(a.Data) == string(b.Data)
	}) {
		e.Errorf("rows = %s, want %s", shownTraffic(got), shownTraffic(want))
	}
}

func shownTraffic(rows []traffic.Row) string {
	text := ""
	for _, r := range rows {
		text += fmt.Sprintf("[%v %v %s %s]", r.Step, r.At, r.Writer, r.Data)
	}
	return text
}

func trafficNone[Tx any](e *env[Tx]) { e.wantTraffic(traffic.Minute) }

func trafficListed[Tx any](e *env[Tx]) {
	a, b, c, d := minuteRow(0, "b", 1), minuteRow(1, "a", 2), minuteRow(1, "b", 3), minuteRow(2, "a", 4)
	hour := traffic.Row{Step: traffic.Hour, At: trafficStart, Writer: "a", Data: []byte(`{}`)}
	e.addTraffic(d, c, b, a, hour)
	e.wantTraffic(traffic.Minute, a, b, c, d)
	e.wantTraffic(traffic.Hour, hour)
	e.sameTraffic(e.listTraffic(traffic.Minute, b.At, d.At), []traffic.Row{b, c})
}

// trafficOnce: a call that is repeated adds nothing, and changes nothing.
func trafficOnce[Tx any](e *env[Tx]) {
	e.addTraffic(minuteRow(0, "a", 1), minuteRow(0, "a", 5))
	e.wantTraffic(traffic.Minute, minuteRow(0, "a", 1))
}

func trafficReplaced[Tx any](e *env[Tx]) {
	a, b, c := minuteRow(0, "a", 1), minuteRow(1, "a", 2), minuteRow(10, "a", 3)
	e.addTraffic(a, b, c)
	sum := traffic.Row{Step: traffic.TenMinutes, At: trafficStart, Writer: "sum", Data: []byte(`{"topics":{}}`)}
	e.must(e.traffic().ReplaceTraffic(e.ctx, []traffic.Row{a, b}, &sum), "ReplaceTraffic")
	e.wantTraffic(traffic.Minute, c)
	e.wantTraffic(traffic.TenMinutes, sum)
}

func trafficRemoved[Tx any](e *env[Tx]) {
	a, b := minuteRow(0, "a", 1), minuteRow(0, "b", 2)
	e.addTraffic(a, b)
	e.must(e.traffic().ReplaceTraffic(e.ctx, []traffic.Row{a}, nil), "ReplaceTraffic")
	e.wantTraffic(traffic.Minute, b)
}

func trafficGone[Tx any](e *env[Tx]) {
	a, gone := minuteRow(0, "a", 1), minuteRow(1, "a", 2)
	e.addTraffic(a)
	sum := traffic.Row{Step: traffic.TenMinutes, At: trafficStart, Writer: "sum", Data: []byte(`{}`)}
	err := e.traffic().ReplaceTraffic(e.ctx, []traffic.Row{a, gone}, &sum)
	if !waybill.IsConflict(err) {
		e.Errorf("ReplaceTraffic() = %v, want a conflict", err)
	}
	e.wantTraffic(traffic.Minute, a)
	e.wantTraffic(traffic.TenMinutes)
}

// trafficRace: whoever is faster, each message is counted once.
func trafficRace[Tx any](e *env[Tx]) {
	want := int64(0)
	for n := range 60 {
		for _, writer := range []string{"a", "b", "c"} {
			e.addTraffic(minuteRow(n, writer, n))
			want += int64(n)
		}
	}
	now := trafficStart.Add(100 * time.Hour) // long enough for hours
	for round := range 5 {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() { errs[i] = traffic.RollUp(e.ctx, e.traffic(), now) })
		}
		wg.Wait()
		e.must(errors.Join(errs...), "RollUp")
		h, err := traffic.Load(e.ctx, e.traffic(), 100*time.Hour+time.Minute, now.Add(time.Minute))
		e.must(err, "Load")
		if got := h.Total(traffic.Selection{Topic: "orders"}).Published; got != want {
			e.Errorf("after round %d %d messages are counted, want %d", round, got, want)
		}
	}
	e.wantTraffic(traffic.Minute)
	if hours := e.listTraffic(traffic.Hour, trafficStart, now); len(hours) != 1 {
		e.Errorf("rows of hours = %s, want one", shownTraffic(hours))
	}
}
