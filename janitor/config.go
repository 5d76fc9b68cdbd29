package janitor

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

const day = 24 * time.Hour

const (
	defaultLetterRetention = 30 * day
	defaultAuditRetention  = 365 * day
	defaultBatchSize       = 1000

	// expiredFor is how long after its expiry a response is removed: no request is answered with it by
	// then.
	expiredFor = time.Minute
)

// Config configures a [Janitor]. The zero value stands for the defaults.
type Config struct {
	// InboxRetention is how long the inbox remembers processed messages, and the attempts at messages
	// that were not redelivered. It must cover the redelivery horizon, see package consumer/retention; a
	// service checks that, a janitor alone does not. Optional; the default
	// is 7 days.
	InboxRetention time.Duration

	// LeaseRetention is how long a lease store remembers processed keys, and keys that are no longer
	// leased. Like InboxRetention it must cover the redelivery horizon. Optional; the
	// default is 7 days.
	LeaseRetention time.Duration

	// DeadLetterRetention is how long a dead letter is kept: after its last failure, or after
	// it was resolved or discarded. It must be at least InboxRetention, because the inbox forgets a
	// dead message together with its dead letter. Optional; the default is 30 days, or
	// InboxRetention if that is more.
	DeadLetterRetention time.Duration

	// SagaRetention is how long a saga that has ended is kept, with its log. It must be at least
	// InboxRetention: a redelivered message must find that its saga has ended, or it starts the saga
	// again. Optional; the default is InboxRetention.
	SagaRetention time.Duration

	// AuditRetention is how long entries of the audit log are kept. Optional; the default is
	// 365 days.
	AuditRetention time.Duration

	// OutboxRetention is how long published messages are kept, if this janitor is to clean up the
	// archive. Optional; the default leaves that to the relays, which do it anyway.
	OutboxRetention time.Duration

	// CleanupInterval is how often the janitor cleans up, give or take a tenth. Of several
	// janitors one does the work. 1 s to 24 h. Optional; the default is 1 h.
	CleanupInterval time.Duration

	// CleanupBatchSize is the maximum number of rows that one transaction removes; between two of them
	// the janitor pauses for as long as the last one took. 1 to 10,000. Optional; the
	// default is 1,000.
	CleanupBatchSize int

	// DisableCleanup removes nothing, for programs that clean up by themselves.
	DisableCleanup bool

	// Observer receives what was removed: [observe.OpCleanup] with the kind of rows as Name. Optional;
	// the default logs to slog.Default.
	Observer observe.Observer
}

func (c Config) withDefaults() (Config, error) {
	fill(&c.InboxRetention, inbox.DefaultRetention)
	fill(&c.LeaseRetention, inbox.DefaultRetention)
	fill(&c.DeadLetterRetention, max(defaultLetterRetention, c.InboxRetention))
	fill(&c.SagaRetention, c.InboxRetention)
	fill(&c.AuditRetention, defaultAuditRetention)
	fill(&c.CleanupInterval, time.Hour)
	fill(&c.CleanupBatchSize, defaultBatchSize)
	if c.Observer == nil {
		c.Observer = observe.LogTo(slog.Default())
	}
	return c, c.validate()
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case c.InboxRetention < 0:
		return invalid("InboxRetention", "is %v; it must be positive", c.InboxRetention)
	case c.LeaseRetention < 0:
		return invalid("LeaseRetention", "is %v; it must be positive", c.LeaseRetention)
	case c.DeadLetterRetention < c.InboxRetention:
		return invalid("DeadLetterRetention", "is %v, less than InboxRetention, which is %v", c.DeadLetterRetention, c.InboxRetention)
	case c.SagaRetention < c.InboxRetention:
		return invalid("SagaRetention", "is %v, less than InboxRetention, which is %v", c.SagaRetention, c.InboxRetention)
	case c.AuditRetention < 0:
		return invalid("AuditRetention", "is %v; it must be positive", c.AuditRetention)
	case c.OutboxRetention < 0:
		return invalid("OutboxRetention", "is %v; it must be positive, or 0", c.OutboxRetention)
	case c.CleanupInterval < time.Second || c.CleanupInterval > day:
		return invalid("CleanupInterval", "is %v, the range is 1s to 24h0m0s", c.CleanupInterval)
	case c.CleanupBatchSize < 1 || c.CleanupBatchSize > 10_000:
		return invalid("CleanupBatchSize", "is %d, the range is 1 to 10000", c.CleanupBatchSize)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "janitor.Config." + field, Reason: fmt.Sprintf(format, args...)}
}
