package brokerkit

import (
	"math/rand/v2"
	"time"
)

// Backoff returns how long to wait after the n-th failure in a row: base, then twice as long each time, up to 5 seconds.
func Backoff(base time.Duration, n int) time.Duration {
	return min(base<<min(max(n-1, 0), 10), 5*time.Second)
}

// Spread returns d ±20 %, so that those who wait do not all come at once.
func Spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
