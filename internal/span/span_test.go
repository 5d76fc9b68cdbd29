package span

import (
	"math"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n    float64
		unit time.Duration
		want time.Duration
	}{
		{1.5, time.Second, 1500 * time.Millisecond},
		{-2, time.Hour, -2 * time.Hour},
		{251_689_000_000_000, time.Millisecond, math.MaxInt64}, // until the year 9999
		{-251_689_000_000_000, time.Millisecond, math.MinInt64},
		{math.Inf(1), time.Nanosecond, math.MaxInt64},
		{math.NaN(), time.Second, 0},
	} {
		if got := Of(tt.n, tt.unit); got != tt.want {
			t.Errorf("Of(%v, %v) = %v, want %v", tt.n, tt.unit, got, tt.want)
		}
	}
	if got := Of(math.MaxInt, time.Second); got != math.MaxInt64 {
		t.Errorf("Of(MaxInt, second) = %v, want the longest duration", got)
	}
}

// FuzzOf: what is longer never comes out as shorter, and nothing changes its sign.
func FuzzOf(f *testing.F) {
	f.Add(1.0, 2.0, int64(time.Millisecond))
	f.Add(9e15, 9e18, int64(time.Hour))
	f.Add(-1e300, 0.0, int64(time.Second))
	f.Fuzz(func(t *testing.T, a, b float64, unit int64) {
		if unit <= 0 || math.IsNaN(a) || math.IsNaN(b) {
			return // there is no order among these
		}
		u := time.Duration(unit)
		if a > b {
			a, b = b, a
		}
		if Of(a, u) > Of(b, u) {
			t.Errorf("Of(%v, %v) = %v is more than Of(%v) = %v", a, u, Of(a, u), b, Of(b, u))
		}
		if a > 0 && Of(a, u) < 0 || a < 0 && Of(a, u) > 0 {
			t.Errorf("Of(%v, %v) = %v has another sign", a, u, Of(a, u))
		}
	})
}
