package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// median returns the middle of values, or the mean of the two in the middle; NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func limits(values []float64) (low, high float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(values), slices.Max(values)
}

// quantile returns the smallest value that at least the share q of values do not exceed.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return s[max(0, min(len(s)-1, int(math.Ceil(q*float64(len(s))))-1))]
}

// interval returns a range that holds the true median with at least 95 % confidence,
// whatever the distribution: the widest pair of order statistics that a fair coin leaves
// outside with less than 2.5 % on each side. With fewer than six values there is none
// narrower than all of them.
func interval(values []float64) (low, high float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	k, tail := 0, math.Pow(0.5, float64(n)) // the chance of at most k heads in n throws
	for term := tail; k+1 < n/2; k++ {
		term *= float64(n-k) / float64(k+1)
		if tail+term > 0.025 {
			break
		}
		tail += term
	}
	if n < 6 {
		return s[0], s[n-1]
	}
	return s[k], s[n-1-k]
}

// ratios divides values pair by pair, in percent: those of one repeat belong together.
func ratios(values, base []float64) []float64 {
	out := quotients(values, base)
	for i := range out {
		out[i] *= 100
	}
	return out
}

func quotients(values, base []float64) []float64 {
	out := make([]float64, min(len(values), len(base)))
	for i := range out {
		out[i] = values[i] / base[i]
	}
	return out
}

// zipfKeys draws the numbers of n keys: few come often, most seldom. The same n and keys give
// the same numbers, so that all contenders drain the same backlog.
func zipfKeys(n, keys int) []int32 {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(keys-1))
	drawn := make([]int32, n)
	for i := range drawn {
		drawn[i] = int32(zipf.Uint64())
	}
	return drawn
}
