package traffic

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// How long rows are kept before their sum replaces them.
const (
	keepMinutes    = 2 * time.Hour
	keepTenMinutes = 48 * time.Hour
)

// levels are the steps of rows, and what becomes of them.
var levels = []struct{ step, sum, keep time.Duration }{
	{Minute, TenMinutes, keepMinutes},
	{TenMinutes, Hour, keepTenMinutes},
	{Hour, 0, Retention}, // removed
}

// RollUp replaces rows that are old enough by their sums, and removes those past [Retention]. Any number of
// processes may call it at once: a row is never counted twice, and never lost.
func RollUp(ctx context.Context, store Store, now time.Time) error {
	for _, l := range levels {
		before := now.Add(-l.keep).Truncate(max(l.sum, l.step))
		rows, err := store.Traffic(ctx, l.step, time.Unix(0, 0), before)
		if err != nil {
			return err
		}
		for _, group := range groups(rows, max(l.sum, l.step)) {
			var sum *Row
			if l.sum > 0 {
				if sum, err = sumOf(group, l.sum); err != nil {
					return err
				}
			}
			err := store.ReplaceTraffic(ctx, group, sum)
			if waybill.IsConflict(err) {
				return nil // another process is at work
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// groups splits rows, which are in order of their time, by the interval of the given length that they are in.
func groups(rows []Row, step time.Duration) [][]Row {
	var list [][]Row
	for i, r := range rows {
		if i == 0 || !r.At.Truncate(step).Equal(rows[i-1].At.Truncate(step)) {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], r)
	}
	return list
}

// sumOf returns one row for all of a group. Its writer is new: a row that has the sum of other rows is another row.
func sumOf(group []Row, step time.Duration) (*Row, error) {
	var sum Interval
	for _, r := range group {
		counted, err := decode(r)
		if err != nil {
			return nil, err
		}
		sum.Merge(counted)
	}
	data, err := sum.Encode()
	return &Row{Step: step, At: group[0].At.Truncate(step), Writer: waybill.NewID(), Data: data}, err
}
