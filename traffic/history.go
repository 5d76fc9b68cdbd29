package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// History is the traffic of a time, in intervals of the same length, without gaps.
type History struct {
	From      time.Time // the beginning of the first interval, a multiple of Step
	Step      time.Duration
	Intervals []Interval
}

// StepFor returns the length of the intervals in which a time of the given length is shown.
func StepFor(since time.Duration) time.Duration {
	switch {
	case since < keepMinutes-TenMinutes:
		return Minute
	case since < keepTenMinutes-Hour:
		return TenMinutes
	}
	return Hour
}

// settled is how long after its end a minute may be missing in the store. It is more than [spread].
const settled = 10 * time.Second

// Load reads the traffic of a time of length since that ends now, in intervals of [StepFor], without the
// current interval, which is not over. since is at least a minute and at most [Retention].
func Load(ctx context.Context, store Store, since time.Duration, now time.Time) (History, error) {
	if since < Minute || since > Retention {
		return History{}, &waybill.InvalidError{Field: "since", Reason: fmt.Sprintf("is %v, the range is 1m to %dh", since, int(Retention.Hours()))}
	}
	step := StepFor(since)
	n := (since + step - 1) / step
	end := now.Add(-settled).UTC().Truncate(step)
	h := History{From: end.Add(-n * step), Step: step, Intervals: make([]Interval, n)}
	for _, kept := range []time.Duration{Minute, TenMinutes, Hour} {
		if kept > step {
			break
		}
		rows, err := store.Traffic(ctx, kept, h.From, end)
		if err != nil {
			return History{}, err
		}
		if err := h.add(rows); err != nil {
			return History{}, err
		}
	}
	return h, nil
}

// add merges rows into their intervals.
func (h *History) add(rows []Row) error {
	for _, r := range rows {
		counted, err := decode(r)
		if err != nil {
			return err
		}
		h.Intervals[r.At.Sub(h.From)/h.Step].Merge(counted)
	}
	return nil
}

// At returns the beginning of an interval.
func (h *History) At(n int) time.Time { return h.From.Add(time.Duration(n) * h.Step) }

// Of returns the selected figures of each interval.
func (h *History) Of(s Selection) []Counts {
	list := make([]Counts, len(h.Intervals))
	for n := range h.Intervals {
		list[n] = h.Intervals[n].Of(s)
	}
	return list
}

// Total returns the selected figures of all intervals together.
func (h *History) Total(s Selection) (sum Counts) {
	for _, c := range h.Of(s) {
		sum.Merge(c)
	}
	return sum
}

// Names are whose traffic a history has.
type Names struct{ Topics, Consumers, Relays []string }

// Names returns the names that occur, each kind in order.
func (h *History) Names() Names {
	var topics, consumers, relays = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, i := range h.Intervals {
		collect(topics, i.Topics)
		collect(consumers, i.Consumers)
		collect(relays, i.Relays)
	}
	return Names{sorted(topics), sorted(consumers), sorted(relays)}
}

func collect(into map[string]bool, from map[string]Counts) {
	for name := range from {
		into[name] = true
	}
}
