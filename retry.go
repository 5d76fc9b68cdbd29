package waybill

import "time"

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
