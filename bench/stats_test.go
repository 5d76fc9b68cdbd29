package main

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median(nil) = %v, want NaN", got)
	}
	values := []float64{3, 1, 2}
	median(values)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("median has sorted its argument: %v", values)
	}
}

func upTo(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i + 1)
	}
	return values
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, q, want float64 }{{100, 0.99, 99}, {100, 0.5, 50}, {100, 1, 100}, {3, 0.99, 3}, {1, 0.5, 1}} {
		if got := quantile(upTo(int(c.n)), c.q); got != c.want {
			t.Errorf("quantile(1 to %v, %v) = %v, want %v", c.n, c.q, got, c.want)
		}
	}
}

// The ranks are those of published tables for the median's distribution-free interval.
func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n         int
		low, high float64
	}{{1, 1, 1}, {5, 1, 5}, {6, 1, 6}, {9, 2, 8}, {20, 6, 15}, {40, 14, 27}, {50, 18, 33}} {
		low, high := interval(upTo(c.n))
		if low != c.low || high != c.high {
			t.Errorf("interval(1 to %d) = %v, %v, want %v, %v", c.n, low, high, c.low, c.high)
		}
	}
}

func TestRatios(t *testing.T) {
	t.Parallel()
	if got, want := ratios([]float64{1, 3, 9}, []float64{2, 4}), []float64{50, 75}; !slices.Equal(got, want) {
		t.Errorf("ratios() = %v, want %v", got, want)
	}
}

func TestZipfKeys(t *testing.T) {
	t.Parallel()
	const n, keys = 100_000, 1000
	drawn := zipfKeys(n, keys)
	if !slices.Equal(drawn, zipfKeys(n, keys)) {
		t.Error("two calls drew different keys: contenders would drain different backlogs")
	}
	count := make([]int, keys)
	for _, k := range drawn {
		if k < 0 || k >= keys {
			t.Fatalf("key %d, want 0 to %d", k, keys-1)
		}
		count[k]++
	}
	// The n-th key comes with a probability in proportion to n to the power of -1.1.
	for _, k := range []int{1, 3, 9} {
		want := float64(count[0]) * math.Pow(float64(k+1), -1.1)
		if got := float64(count[k]); math.Abs(got-want) > 0.1*want {
			t.Errorf("key %d came %v times, want about %.0f", k, got, want)
		}
	}
}
