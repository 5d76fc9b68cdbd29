// Package backoff computes what a [waybill.RetryPolicy] says: whether there is another attempt, and when.
package backoff

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	defaultMaxRetries = 5
	defaultBaseDelay  = time.Second
	defaultMaxDelay   = 60 * time.Second
	maxMaxDelay       = 100 * 365 * 24 * time.Hour // with jitter, and from any moment on, a Duration
	jitter            = 0.2
)

// WithDefaults returns p with its zero fields filled in and checked. The error names the
// field that is out of range, or the two that clash.
func WithDefaults(p waybill.RetryPolicy) (waybill.RetryPolicy, error) {
	switch {
	case p.MaxRetries == 0:
		p.MaxRetries = defaultMaxRetries
	case p.MaxRetries < waybill.NoRetries:
		return p, invalid("MaxRetries", "is %d; it must be positive, or NoRetries", p.MaxRetries)
	}
	if p.BaseDelay == 0 {
		p.BaseDelay = defaultBaseDelay
	}
	if p.MaxDelay == 0 {
		p.MaxDelay = max(defaultMaxDelay, p.BaseDelay)
	}
	if p.BaseDelay < 0 {
		return p, invalid("BaseDelay", "is %v; it must be positive", p.BaseDelay)
	}
	if p.MaxDelay > maxMaxDelay {
		return p, invalid("MaxDelay", "is %v, the limit is %v", p.MaxDelay, maxMaxDelay)
	}
	if p.BaseDelay > p.MaxDelay {
		return p, invalid("BaseDelay", "is %v, more than Retry.MaxDelay, which is %v", p.BaseDelay, p.MaxDelay)
	}
	return p, nil
}

// Exhausted reports whether p leaves no retry after the given number of failed attempts.
func Exhausted(p waybill.RetryPolicy, attempts int) bool {
	return attempts > max(p.MaxRetries, 0)
}

// Delay returns the wait after the given number of failed attempts, 1 and up: BaseDelay
// doubled attempts-1 times, capped by MaxDelay, varied by ±20 % unless jitter is off.
func Delay(p waybill.RetryPolicy, attempts int) time.Duration {
	d := p.BaseDelay
	for i := 1; i < attempts && d < p.MaxDelay; i++ {
		if d > p.MaxDelay/2 {
			d = p.MaxDelay
			break
		}
		d *= 2
	}
	d = min(d, p.MaxDelay)
	if p.DisableJitter {
		return d
	}
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "Retry." + field, Reason: fmt.Sprintf(format, args...)}
}
