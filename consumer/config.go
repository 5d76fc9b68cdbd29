package consumer

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer/retention"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// Order says which deliveries may overtake each other.
type Order int

const (
	// Unordered handles deliveries as they come; a failed one is redelivered later, and others are
	// handled in the meantime.
	Unordered Order = iota
	// OrderByKey handles deliveries of one key one after the other. Later ones are held until an
	// earlier one has succeeded or is dead-lettered. Across replicas this holds only where the
	// broker gives all messages of a key to one of them.
	OrderByKey
)

// ConflictPolicy says what to do with a message whose inbox key was processed before with another
// payload: two different messages share an id.
type ConflictPolicy int

const (
	// ConflictBury makes it a dead letter, reason conflict. The record of the first message stays, and
	// the dead letter can't be requeued.
	ConflictBury ConflictPolicy = iota
	// ConflictSkip acknowledges it, as a duplicate.
	ConflictSkip
	// ConflictRetry is an error that counts as an attempt: the message is retried as the retry policy
	// says, in case the record of the first message is removed, and is dead-lettered in the end.
	ConflictRetry
)

// Config configures a [Consumer].
type Config struct {
	// Node names this process in the history of dead letters. At most [waybill.MaxIDLen]
	// bytes. Optional; the default is made from the host's name and the process id.
	Node string

	// Concurrency is how many handlers run concurrently. 1 to 10,000. Optional; the default
	// is 4.
	Concurrency int

	// BatchSize is the maximum number of messages that a transaction handles. A free handler takes what has been
	// received, even a single message; it does not wait for more. If one message fails its whole batch is rolled
	// back; it is then handled by itself, the others in batches half as large. Redelivered messages are handled by
	// themselves. Above 1 the inbox must be a [contract.Batcher]. 1 to 1,000. Optional; the default is 1.
	BatchSize int

	// Prefetch is how many deliveries are held at once, at least Concurrency and at least BatchSize.
	// With OrderByKey, the deliveries of a failing key count until they are settled. Optional; the
	// default is eight times Concurrency, and with batches two for each handler.
	Prefetch int

	// Order says which deliveries may overtake each other. Optional; the default is
	// [Unordered].
	Order Order

	// Offsets keeps the broker's offsets in the database of the inbox, which must be an
	// [contract.OffsetStore]; the subscriber must be a [contract.OffsetSubscriber]. A partition's messages
	// are handled one by one, in order, concurrently with those of other partitions: a failing message
	// blocks its partition, whatever Order says, until it succeeds or is a dead letter. All consumers of
	// the group must agree: stop those that leave offsets to the broker first. BatchSize must be 1.
	// Optional; the default is [OffsetsOff].
	Offsets OffsetMode

	// Retry says when failed deliveries are tried again. Optional.
	Retry waybill.RetryPolicy

	// ImmediateRetries is how many times a failed handler is run again at once, before the attempt
	// counts as failed and the next one waits for its delay. Each run has a transaction and a
	// HandlerTimeout of its own; together they are one attempt. Only transient errors are retried, and
	// a timeout is not. 0 to 10. Optional; the default is none, because retrying at once does not help
	// in an outage, and repeats what a handler does outside of its transaction.
	ImmediateRetries int

	// HandlerTimeout is how long a handler may take. Optional; the default is 30 s.
	HandlerTimeout time.Duration

	// StoreTimeout is how long a call to the store may take: to begin a transaction and insert
	// the inbox record, to commit, to read or write attempts, to store a dead letter. The time
	// of the handler does not count. It must be more than the store's GateTimeout. If the store does
	// not answer for that long the consumer pauses: it requeues what it has received, its Health says
	// why, and it resumes when the store answers. Optional; the default is 10 s.
	StoreTimeout time.Duration

	// PauseAfter is how many different messages may fail, with no success between them, before
	// the consumer pauses: a second at first, doubled up to a minute. Then messages are tried one by
	// one, until one succeeds. Only errors without a kind count, and panics and timeouts.
	// Optional; the default is 10, and a negative number never pauses.
	PauseAfter int

	// RequeueInterval is how often the consumer looks for dead letters that were requeued.
	// Optional; the default is 5 s.
	RequeueInterval time.Duration

	// ShutdownGrace is how long Run waits for running handlers after its context has ended. Their
	// contexts end when a tenth of it is left, or a second if that is less, and Run returns a second
	// later at the latest. Optional; the default is HandlerTimeout.
	ShutdownGrace time.Duration

	// OnConflict says what to do with a message whose key was processed with another payload.
	// It is counted in any case. Optional; the default is [ConflictBury].
	OnConflict ConflictPolicy

	// MessageKey makes the inbox key of a message that has neither an id nor an idempotency
	// key, as foreign producers may send. It must give the same key for each delivery of a
	// message and different keys for different messages. Optional; without it, and if it fails
	// or panics, such a message becomes a dead letter.
	MessageKey func(m *waybill.Message) (string, error)

	// InboxRetention is how long the inbox remembers what was handled. It must be the value that the
	// janitor is configured with. [New] refuses one that is shorter than the horizon within which
	// a message may be delivered again, see package retention. Optional; the default is 7 days.
	InboxRetention time.Duration

	// RelayRetry is the policy of the relays that publish what this consumer receives. It is used to
	// compute that horizon. Optional; the default is the relays' own.
	RelayRetry waybill.RetryPolicy

	// AllowShortRetention accepts an InboxRetention that is shorter than that: what is redelivered
	// later is handled again.
	AllowShortRetention bool

	// DisableDeadLetters marks messages as failed instead of dead-lettering them. They are still kept,
	// shown and requeued.
	DisableDeadLetters bool

	// GiveUp says which messages get a final attempt: one that would become a dead letter, after a
	// permanent error or its last retry, is handled once more, and [GivenUpFrom] tells the handler so.
	// If it succeeds the message counts as processed and there is no dead letter. The final attempt is
	// repeated without limit after a transient error, with the delays of Retry, and after an
	// unavailable one or a conflict; a permanent one makes the dead letter. Messages that do not
	// decode, have no id, or have the key of another message get no final attempt, and neither do
	// requeued dead letters: they are dead again. GiveUp is called concurrently, may not be set with
	// leases, and must give the same answer for each delivery of a message; if it panics there is no
	// final attempt, and the dead letter says so. Optional; the default is none.
	GiveUp func(m *waybill.Message) bool

	// Observer receives the consumer's events. Optional; the default logs to slog.Default.
	Observer observe.Observer
}

const (
	maxConcurrency      = 10_000
	maxPrefetch         = 65535
	maxImmediateRetries = 10
)

func (c Config) withDefaults() (Config, error) {
	if c.Node == "" {
		c.Node = nodeName()
	}
	fill(&c.Concurrency, 4)
	fill(&c.BatchSize, 1)
	fill(&c.Prefetch, max(8*c.Concurrency, min(2*c.Concurrency*c.BatchSize, maxPrefetch)))
	fill(&c.HandlerTimeout, 30*time.Second)
	fill(&c.StoreTimeout, 10*time.Second)
	fill(&c.PauseAfter, 10)
	fill(&c.RequeueInterval, 5*time.Second)
	fill(&c.ShutdownGrace, c.HandlerTimeout)
	fill(&c.InboxRetention, inbox.DefaultRetention)
	if c.Observer == nil {
		c.Observer = observe.LogTo(slog.Default())
	}
	c.Observer = loop.Guard(c.Observer)
	var err error
	if c.Retry, err = backoff.WithDefaults(c.Retry); err != nil {
		return c, err
	}
	return c, c.validate()
}

// checkRetention compares InboxRetention with the horizon of what sub delivers.
func (c *Config) checkRetention(sub contract.Subscriber) error {
	r := retention.Plan{Inbox: c.InboxRetention, Relay: c.RelayRetry, Consumer: c.Retry, Redelivery: contract.RedeliveryOf(sub)}
	if err := r.Check(); err != nil && !c.AllowShortRetention {
		return invalid("InboxRetention", "%v; AllowShortRetention allows it anyway", err)
	}
	return nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case len(c.Node) > waybill.MaxIDLen:
		return invalid("Node", "has %d bytes, the limit is %d", len(c.Node), waybill.MaxIDLen)
	case !utf8.ValidString(c.Node) || strings.ContainsRune(c.Node, 0):
		return invalid("Node", "is not UTF-8 text, or holds a NUL")
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return invalid("Concurrency", "is %d, the range is 1 to %d", c.Concurrency, maxConcurrency)
	case c.BatchSize < 1 || c.BatchSize > maxBatchSize:
		return invalid("BatchSize", "is %d, the range is 1 to %d", c.BatchSize, maxBatchSize)
	case c.Prefetch < c.Concurrency || c.Prefetch > maxPrefetch:
		return invalid("Prefetch", "is %d, the range is Concurrency, which is %d, to %d", c.Prefetch, c.Concurrency, maxPrefetch)
	case c.Prefetch < c.BatchSize:
		return invalid("Prefetch", "is %d, and BatchSize is %d; a batch is never larger than what is held", c.Prefetch, c.BatchSize)
	case c.ImmediateRetries < 0 || c.ImmediateRetries > maxImmediateRetries:
		return invalid("ImmediateRetries", "is %d, the range is 0 to %d", c.ImmediateRetries, maxImmediateRetries)
	case c.Order != Unordered && c.Order != OrderByKey:
		return invalid("Order", "is %d, neither Unordered nor OrderByKey", c.Order)
	case c.Offsets < OffsetsOff || c.Offsets > OffsetsBehindExactlyOnce:
		return invalid("Offsets", "is %d, neither OffsetsOff nor OffsetsBesideInbox nor OffsetsBehindExactlyOnce", c.Offsets)
	case c.OnConflict < ConflictBury || c.OnConflict > ConflictRetry:
		return invalid("OnConflict", "is %d, neither ConflictBury nor ConflictSkip nor ConflictRetry", c.OnConflict)
	case c.InboxRetention < 0:
		return invalid("InboxRetention", "is %v; it must be positive", c.InboxRetention)
	case c.HandlerTimeout < 0 || c.StoreTimeout < 0 || c.RequeueInterval < 0 || c.ShutdownGrace < 0:
		return invalid("HandlerTimeout", "is %v, StoreTimeout %v, RequeueInterval %v, ShutdownGrace %v; none may be negative",
			c.HandlerTimeout, c.StoreTimeout, c.RequeueInterval, c.ShutdownGrace)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "consumer.Config." + field, Reason: fmt.Sprintf(format, args...)}
}

func nodeName() string {
	host, err := os.Hostname()
	if err != nil || len(host) > waybill.MaxTenantLen {
		host = "consumer"
	}
	return fmt.Sprintf("%s-%d", strings.ToValidUTF8(host, ""), os.Getpid())
}
