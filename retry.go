package waybill

import (
	"math/rand/v2"
	"time"
)

// RetryPolicy says how often and after which delays a failed message is retried.
// The zero value stands for the defaults.
type RetryPolicy struct {
	// MaxRetries is the number of attempts after the first. Optional; the default is 5. [NoRetries]
	// means none.
	MaxRetries int

	// BaseDelay is the delay before the first retry; each further one is doubled.
	// Optional; the default is 1 second.
	BaseDelay time.Duration

	// MaxDelay caps the delay. Optional; the default is 60 seconds, the limit 100 years.
	MaxDelay time.Duration

	// DisableJitter switches off the random variation of each delay by ±20 %.
	DisableJitter bool
}

// NoRetries as [RetryPolicy.MaxRetries] gives a message one attempt only.
const NoRetries = -1

const (
	defaultMaxRetries = 5
	defaultBaseDelay  = time.Second
	defaultMaxDelay   = 60 * time.Second
	maxMaxDelay       = 100 * 365 * 24 * time.Hour // with jitter, and from any moment on, a Duration
	jitter            = 0.2
)

// WithDefaults returns p with its zero fields filled in and checked. The error names the
// field that is out of range, or the two that clash.
func (p RetryPolicy) WithDefaults() (RetryPolicy, error) {
	switch {
	case p.MaxRetries == 0:
		p.MaxRetries = defaultMaxRetries
	case p.MaxRetries < NoRetries:
		return p, invalidf("Retry.MaxRetries", "is %d; it must be positive, or NoRetries", p.MaxRetries)
	}
	if p.BaseDelay == 0 {
		p.BaseDelay = defaultBaseDelay
	}
	if p.MaxDelay == 0 {
		p.MaxDelay = max(defaultMaxDelay, p.BaseDelay)
	}
	if p.BaseDelay < 0 {
		return p, invalidf("Retry.BaseDelay", "is %v; it must be positive", p.BaseDelay)
	}
	if p.MaxDelay > maxMaxDelay {
		return p, invalidf("Retry.MaxDelay", "is %v, the limit is %v", p.MaxDelay, maxMaxDelay)
	}
	if p.BaseDelay > p.MaxDelay {
		return p, invalidf("Retry.BaseDelay", "is %v, more than Retry.MaxDelay, which is %v", p.BaseDelay, p.MaxDelay)
	}
	return p, nil
}

// Exhausted reports whether no retry is left after the given number of failed attempts.
func (p RetryPolicy) Exhausted(attempts int) bool {
	return attempts > max(p.MaxRetries, 0)
}

// Delay returns the wait after the given number of failed attempts, 1 and up: BaseDelay
// doubled attempts-1 times, capped by MaxDelay, varied by ±20 % unless jitter is off.
func (p RetryPolicy) Delay(attempts int) time.Duration {
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
