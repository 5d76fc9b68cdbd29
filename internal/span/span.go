// Package span turns numbers from outside into durations. A [time.Duration] ends at 292 years, and
// a number that is converted past that comes out as any other: a time far ahead would be the past.
package span

import (
	"math"
	"time"
)

// Of returns n units. What a duration cannot hold becomes the longest one there is, or the longest
// into the past; what is no number becomes 0.
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
