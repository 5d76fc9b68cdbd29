package traffic

import (
	"math"
	"testing"
	"time"
)

func TestBucketOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		d    time.Duration
		want int
	}{
		{0, 0}, {time.Millisecond, 0}, {time.Millisecond + 1, 1}, {2 * time.Millisecond, 1}, {2*time.Millisecond + 1, 2},
		{4 * time.Millisecond, 2}, {5 * time.Millisecond, 3}, {1024 * time.Millisecond, 10}, {1025 * time.Millisecond, 11},
		{math.MaxInt64, maxBuckets - 1},
	} {
		if got := bucketOf(tc.d); got != tc.want {
			t.Errorf("bucketOf(%v) = %d, want %d", tc.d, got, tc.want)
		}
		low, high := limits(tc.want)
		if tc.want < maxBuckets-1 && (tc.d <= low && tc.d > 0 || tc.d > high) {
			t.Errorf("limits(%d) = %v, %v, without %v", tc.want, low, high, tc.d)
		}
	}
}

func TestHistogram_Quantile(t *testing.T) {
	t.Parallel()
	var h Histogram
	if got := h.Quantile(.5); got != 0 {
		t.Errorf("Quantile() of nothing = %v, want 0", got)
	}
	for range 90 {
		h.add(3 * time.Millisecond) // between 2 and 4
	}
	for range 10 {
		h.add(900 * time.Millisecond) // between 512 and 1024
	}
	for _, tc := range []struct {
		q         float64
		low, high time.Duration
	}{
		{.5, 2 * time.Millisecond, 4 * time.Millisecond}, {.9, 2 * time.Millisecond, 4 * time.Millisecond},
		{.99, 512 * time.Millisecond, 1024 * time.Millisecond}, {1, 1024 * time.Millisecond, 1024 * time.Millisecond},
	} {
		if got := h.Quantile(tc.q); got < tc.low || got > tc.high {
			t.Errorf("Quantile(%v) = %v, want %v to %v", tc.q, got, tc.low, tc.high)
		}
	}
	h = nil
	h.add(200 * time.Hour)
	if got, want := h.Quantile(.99), time.Millisecond<<(maxBuckets-2); got != want {
		t.Errorf("Quantile() of what is longer than all limits = %v, want %v", got, want)
	}
}

// TestHistogram_MergeCopies: what is added to a sum is not added to what it was made of.
func TestHistogram_MergeCopies(t *testing.T) {
	t.Parallel()
	one, sum := Histogram{1, 2}, Histogram{}
	sum.merge(one)
	sum.merge(Histogram{0, 0, 5})
	sum.merge(one)
	if sum.Total() != 11 || one.Total() != 3 {
		t.Errorf("sum = %v, part = %v", sum, one)
	}
	sum.merge(make(Histogram, maxBuckets+5)) // of a foreign program
	if len(sum) > maxBuckets {
		t.Errorf("%d elements, want at most %d", len(sum), maxBuckets)
	}
}
