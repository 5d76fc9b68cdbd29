package inboxhttp

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

// Config configures a [Server]. The zero value stands for the defaults.
type Config struct {
	// Tokens authenticate programs. Optional; without any, everybody has full access.
	Tokens []Token

	// DefaultLease is how long a lease lasts if the request names no duration. MinLease to MaxLease.
	// Optional; the default is 60 s.
	DefaultLease time.Duration

	// MinLease is the duration to which a shorter lease is raised. At least [lease.MinTTL]. Optional; the
	// default is 30 s.
	MinLease time.Duration

	// MaxLease is the duration to which a longer lease is cut. At most [lease.MaxTTL]. Optional; the
	// default is 120 s.
	MaxLease time.Duration

	// MaxBodyLen is the maximum size of a request body in bytes. Optional; the default is
	// 1 MiB, which is enough for [lease.MaxBatch] keys of usual length.
	MaxBodyLen int

	// RateLimit is how many keys per second each token may request, or all programs together if there
	// are no tokens. Bursts of up to one second's keys are allowed. Optional; 0 means no limit.
	RateLimit int

	// StoreTimeout is how long the store may take for one request. It should be below the
	// timeout of the clients. Optional; the default is 4 s.
	StoreTimeout time.Duration

	// Observer receives each request, as [observe.OpServe]. Optional; the default logs to
	// slog.Default.
	Observer observe.Observer
}

const (
	defaultLease        = 60 * time.Second
	defaultMinLease     = 30 * time.Second
	defaultMaxLease     = 120 * time.Second
	defaultMaxBodyLen   = 1 << 20
	defaultStoreTimeout = 4 * time.Second
)

func (c Config) withDefaults() Config {
	setDefault(&c.MinLease, defaultMinLease)
	setDefault(&c.MaxLease, defaultMaxLease)
	setDefault(&c.DefaultLease, min(max(defaultLease, c.MinLease), c.MaxLease))
	setDefault(&c.MaxBodyLen, defaultMaxBodyLen)
	setDefault(&c.StoreTimeout, defaultStoreTimeout)
	if c.Observer == nil {
		c.Observer = observe.LogTo(slog.Default())
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	switch {
	case c.MinLease < lease.MinTTL:
		return invalid("Config.MinLease", "is %v, the minimum is %v", c.MinLease, lease.MinTTL)
	case c.MaxLease > lease.MaxTTL:
		return invalid("Config.MaxLease", "is %v, the maximum is %v", c.MaxLease, lease.MaxTTL)
	case c.MinLease > c.MaxLease:
		return invalid("Config.MinLease", "is %v, which is above MaxLease, %v", c.MinLease, c.MaxLease)
	case c.DefaultLease < c.MinLease || c.DefaultLease > c.MaxLease:
		return invalid("Config.DefaultLease", "is %v, the range is MinLease, %v, to MaxLease, %v", c.DefaultLease, c.MinLease, c.MaxLease)
	case c.MaxBodyLen < 0:
		return invalid("Config.MaxBodyLen", "is %d; it must not be negative", c.MaxBodyLen)
	case c.RateLimit < 0:
		return invalid("Config.RateLimit", "is %d; it must not be negative", c.RateLimit)
	case c.StoreTimeout < 0:
		return invalid("Config.StoreTimeout", "is %v; it must not be negative", c.StoreTimeout)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
