// Package span converts external numbers into durations. A [time.Duration] is limited to 292 years,
// and the conversion of a larger number overflows: a time far ahead would be in the past.
package span

import (
	"math"
	"time"
)

// Of returns n units. A value out of range becomes the largest, or the smallest, duration; NaN
// becomes 0.
func Of[N int | int64 | float64](n N, unit time.Duration) time.Duration {
	switch d := float64(n) * float64(unit); {
	case math.IsNaN(d):
		return 0
	case d >= math.MaxInt64:
		return math.MaxInt64
	case d <= math.MinInt64:
		return math.MinInt64
	default:
		return time.Duration(d)
	}
}
