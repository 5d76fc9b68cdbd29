package traffic

import "time"

// Histogram counts durations. Element 0 counts those up to a millisecond, each other one those up to twice
// the limit of the one before, and the last possible one, of [maxBuckets], all that are longer.
type Histogram []int64

// maxBuckets makes the last limit 70 minutes.
const maxBuckets = 24

// add counts a duration.
func (h *Histogram) add(d time.Duration) {
	i := bucketOf(d)
	if missing := i + 1 - len(*h); missing > 0 {
		*h = append(*h, make(Histogram, missing)...)
	}
	(*h)[i]++
}

// bucketOf returns the element that counts d.
func bucketOf(d time.Duration) int {
	i := 0
	for limit := time.Millisecond; d > limit && i < maxBuckets-1; limit *= 2 {
		i++
	}
	return i
}

// merge adds the counts of other. What a foreign program has stored beyond the last element is left out.
func (h *Histogram) merge(other Histogram) {
	other = other[:min(len(other), maxBuckets)]
	if missing := len(other) - len(*h); missing > 0 {
		*h = append(*h, make(Histogram, missing)...)
	}
	for i, n := range other {
		(*h)[i] += n
	}
}

// Total returns the number of durations.
func (h Histogram) Total() (n int64) {
	for _, count := range h {
		n += count
	}
	return n
}

// Quantile returns the duration that the share q of the counted ones, 0 to 1, does not exceed; 0 if there is
// none. It is exact to the limits of the element that it is in, and interpolated between them. What is counted by
// the last element of all is taken for its lower limit.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := q * float64(h.Total())
	below := 0.0
	for i, n := range h {
		if n > 0 && below+float64(n) >= rank {
			low, high := limits(i)
			return low + time.Duration(float64(high-low)*max(0, rank-below)/float64(n))
		}
		below += float64(n)
	}
	return 0
}

// limits returns between which durations an element counts.
func limits(i int) (low, high time.Duration) {
	if i == 0 {
		return 0, time.Millisecond
	}
	low = time.Millisecond << (i - 1)
	if i == maxBuckets-1 {
		return low, low
	}
	return low, 2 * low
}
