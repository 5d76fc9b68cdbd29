package relay

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay/record"
)

// Mode says how many messages of one key may be in flight.
type Mode int

const (
	// Pipelined sends a whole batch before it waits. If the broker refuses a message that passed our
	// checks, later ones of its key in the same batch may overtake it; each such case is observed as
	// [observe.OpOvertaken].
	Pipelined Mode = iota
	// Strict sends a message of a key only after the one before it was accepted.
	Strict
)

// KeepNothing as [Config.Retention] removes messages when they are published.
const KeepNothing time.Duration = -1

// Config configures a [Relay]. The zero value stands for the defaults.
type Config struct {
	// Node names the relay in leases and logs. It must be unique among live relays; one that finds
	// another of its name reports it, and its Health returns an error. Optional; the default is made
	// from the host's name, the process id and a random number.
	Node string

	// PollInterval is the longest sleep of a relay that finds nothing: the safety net for missed
	// wake-ups. 10 ms to 60 s. Optional; the default is 5 s.
	PollInterval time.Duration

	// BatchSize is the maximum number of messages that are published together. Batches begin with 100,
	// grow while the destination answers quickly, and shrink when it is slow. The relay reads ahead up to
	// 50 batches, at most 5,000 messages or about 16 MiB. 1 to 10,000. Optional; the default is 500.
	BatchSize int

	// Parallelism is how many batches, of different keys, are in flight to each destination. 1 to 64; 1
	// means strictly one after the other. Optional; the default is 4.
	Parallelism int

	// Mode says how many messages of one key may be in flight. Optional; the default is [Pipelined].
	Mode Mode

	// Retry is the retry policy for failed messages. Optional.
	Retry waybill.RetryPolicy

	// LeaseTTL is how long a relay that has gone silent keeps its lanes. It must be at least
	// RenewInterval plus PublishTimeout, and at most 30 days. Optional; the default is 8 s.
	LeaseTTL time.Duration

	// RenewInterval is how often the lease is renewed. Optional; the default is 2 s.
	RenewInterval time.Duration

	// PublishTimeout is how long the broker may take to confirm a batch before the destination,
	// or the topic, is paused. What is unconfirmed then is published again; for a
	// [contract.LateConfirmer] the relay waits 15 times as long, unless the connection is lost or the
	// lease ends. With any other publisher, a batch of several topics gets at most 2 s, and each topic
	// then has separate batches. Optional; the default is 4 s.
	PublishTimeout time.Duration

	// ShutdownGrace is how long Run waits for batches in flight after its context has ended. Optional;
	// the default is PublishTimeout plus 2 s.
	ShutdownGrace time.Duration

	// Retention is how long published messages are kept; the relay removes older ones every
	// CleanupInterval. [KeepNothing] removes them when they are published. Optional; the
	// default is 7 days.
	Retention time.Duration

	// CleanupInterval is how often the relay removes what is past Retention and prepares the
	// archive for the next days. Of several relays one does the work. 1 s to 24 h. Optional;
	// the default is 1 h.
	CleanupInterval time.Duration

	// CleanupBatchSize is the maximum number of rows that one statement of a clean-up removes; between
	// two of them it pauses for as long as the last one took. 1 to 10,000. Optional; the default
	// is 1,000.
	CleanupBatchSize int

	// DisableCleanup removes nothing that is past Retention, for programs that clean up by themselves.
	// The archive is still prepared for the next days.
	DisableCleanup bool

	// DisableDeadLetters marks messages whose attempts are used up as Failed instead of Dead. They are
	// still kept, shown and requeued.
	DisableDeadLetters bool

	// Followers are destinations that get a message once it is published, each with separate rows and
	// attempts: their failures never publish it again. Optional.
	Followers []Destination

	// Order is the policy for a key's later messages when one fails, on every topic that TopicOrder
	// does not name. Optional; the default is [Block].
	Order OrderPolicy

	// TopicOrder is the policy for single topics, or destinations of [waybill.Message.To]. Optional.
	TopicOrder map[string]OrderPolicy

	// MaxParkedMessages is how many messages may be parked behind dead letters in the lanes
	// of this relay. At the limit it claims nothing new, until dead letters were requeued or
	// resolved: this is observed as [observe.OpBackPressure]. It counts about once a second, so it may
	// exceed the limit in between. Optional; the default is 100,000.
	MaxParkedMessages int

	// MaxParkedKeys is the same for the keys that are parked, each counted once for every
	// destination that it is parked for. Optional; the default is 10,000.
	MaxParkedKeys int

	// Observer receives events. If it panics that is logged to slog.Default and does not affect
	// messages. Optional; the default logs to slog.Default.
	Observer observe.Observer

	// Recorder records the input of the relay's decisions. Optional.
	Recorder *record.Recorder
}

const defaultRetention = 7 * 24 * time.Hour

func (c Config) withDefaults() (Config, error) {
	c.fillDefaults()
	var err error
	if c.Retry, err = backoff.WithDefaults(c.Retry); err != nil {
		return c, err
	}
	return c, c.validate()
}

func (c *Config) fillDefaults() {
	if c.Node == "" {
		c.Node = nodeName()
	}
	fill(&c.PollInterval, 5*time.Second)
	fill(&c.BatchSize, 500)
	fill(&c.Parallelism, 4)
	fill(&c.LeaseTTL, 8*time.Second)
	fill(&c.RenewInterval, 2*time.Second)
	fill(&c.PublishTimeout, 4*time.Second)
	fill(&c.ShutdownGrace, c.PublishTimeout+2*time.Second)
	fill(&c.Retention, defaultRetention)
	fill(&c.MaxParkedMessages, 100_000)
	fill(&c.MaxParkedKeys, 10_000)
	c.TopicOrder = maps.Clone(c.TopicOrder)
	fill(&c.CleanupInterval, time.Hour)
	fill(&c.CleanupBatchSize, 1000)
	if c.Observer == nil {
		c.Observer = observe.LogTo(slog.Default())
	}
	c.Observer = loop.Guard(c.Observer)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxLeaseTTL is the longest lease of lanes: a relay that dies keeps them for that long.
const maxLeaseTTL = 30 * 24 * time.Hour

func (c *Config) validate() error {
	switch {
	case len(c.Node) > waybill.MaxIDLen:
		return invalid("Node", "has %d bytes, the limit is %d", len(c.Node), waybill.MaxIDLen)
	case c.PollInterval < 10*time.Millisecond || c.PollInterval > time.Minute:
		return invalid("PollInterval", "is %v, the range is 10ms to 1m0s", c.PollInterval)
	case c.BatchSize < 1 || c.BatchSize > 10_000:
		return invalid("BatchSize", "is %d, the range is 1 to 10000", c.BatchSize)
	case c.Parallelism < 1 || c.Parallelism > 64:
		return invalid("Parallelism", "is %d, the range is 1 to 64", c.Parallelism)
	case c.Mode != Pipelined && c.Mode != Strict:
		return invalid("Mode", "is %d, neither Pipelined nor Strict", c.Mode)
	case c.RenewInterval <= 0 || c.PublishTimeout <= 0:
		return invalid("RenewInterval", "is %v and PublishTimeout is %v; both must be positive", c.RenewInterval, c.PublishTimeout)
	case c.LeaseTTL > maxLeaseTTL:
		return invalid("LeaseTTL", "is %v, the limit is %v", c.LeaseTTL, maxLeaseTTL)
	case c.LeaseTTL-c.PublishTimeout < c.RenewInterval: // not their sum, which may be too large
		return invalid("LeaseTTL", "is %v, less than RenewInterval plus PublishTimeout, which are %v and %v", c.LeaseTTL, c.RenewInterval, c.PublishTimeout)
	case c.ShutdownGrace < 0:
		return invalid("ShutdownGrace", "is %v; it must not be negative", c.ShutdownGrace)
	case c.Retention < 0 && c.Retention != KeepNothing:
		return invalid("Retention", "is %v; it must be positive, or KeepNothing", c.Retention)
	case c.CleanupInterval < time.Second || c.CleanupInterval > 24*time.Hour:
		return invalid("CleanupInterval", "is %v, the range is 1s to 24h0m0s", c.CleanupInterval)
	case c.CleanupBatchSize < 1 || c.CleanupBatchSize > 10_000:
		return invalid("CleanupBatchSize", "is %d, the range is 1 to 10000", c.CleanupBatchSize)
	}
	return c.validateOrder()
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "relay.Config." + field, Reason: fmt.Sprintf(format, args...)}
}

func nodeName() string {
	host, err := os.Hostname()
	if err != nil || len(host) > waybill.MaxTenantLen {
		host = "relay"
	}
	return fmt.Sprintf("%s-%d-%08x", host, os.Getpid(), rand.Uint32())
}
