package kafkabroker

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
)

const (
	defaultWindow         = 1000
	defaultCommitInterval = time.Second
	defaultDrainTimeout   = 5 * time.Second
	minCommitInterval     = 100 * time.Millisecond // what the client library allows
	maxDrainTimeout       = 30 * time.Second       // half of the time that a rebalance may take
)

// Config configures how to reach a Kafka cluster and how to use it.
type Config struct {
	// URL names the first brokers to ask, "kafka://host:port,host:port", or "kafkas://…" for
	// TLS. A user and a password, percent-encoded, stand before the first host:
	// "kafkas://user:password@host:9093?sasl=scram-sha-512". sasl is plain, which is the
	// default, scram-sha-256 or scram-sha-512. Required.
	URL string

	// TopicPrefix is put in front of a topic or destination to make the name of the Kafka
	// topic. Optional; the default is none.
	TopicPrefix string

	// CreateTopics makes publishers and subscribers create a Kafka topic that is missing. Without it a
	// message for a missing topic is unroutable, and subscribing to one fails; create topics with
	// [Broker.Apply]. Optional; the default is false.
	CreateTopics bool

	// Partitions is the number of partitions of a topic that is created. Optional; the default
	// is that of the cluster.
	Partitions int

	// ReplicationFactor is the number of copies of a topic that is created. Optional; the
	// default is that of the cluster.
	ReplicationFactor int

	// InstanceID makes the consumers of this process static members of their groups: their partitions
	// stay theirs while they restart within the group's session timeout. It must differ between the
	// processes of a group, and one process may run only one Subscribe at once for each group.
	// Optional; the default is none.
	InstanceID string

	// DeliverNew makes a group that has no offset for a partition start with what is published
	// from then on, instead of with all that the partition holds. What is published to a
	// partition before the group first sees it is then not received. Optional; the default is
	// false.
	DeliverNew bool

	// TransactionalID enables the exactly-once relay and names the outbox that is published: what a
	// relay publishes is committed in transactions, together with a record of it, and no relay
	// publishes again what is recorded. The transactional ids are TransactionalID+"-"+lane, the records
	// are in the topic TopicPrefix+"_progress."+TransactionalID. All relays of one store must have the
	// same id, those of other stores a different one. ASCII letters, digits, '.', '_' and '-', up to
	// 100 bytes. Optional; the default is none, which publishes without transactions.
	TransactionalID string

	// Window is how many records of a partition may be received beyond the oldest one that is not
	// acknowledged, and with it how many acknowledged messages may be redelivered after a crash. A
	// partition whose oldest message waits for a retry stalls when the window is full. Optional; the
	// default is 1000.
	Window int

	// CommitInterval is how often acknowledged offsets are committed. A shorter one means fewer
	// redeliveries after a crash. Optional; the default is 1 second, the minimum 100 ms.
	CommitInterval time.Duration

	// DrainTimeout is how long a partition that is revoked in a rebalance waits for its unsettled
	// deliveries, so that they are not delivered twice. Optional; the default is 5 seconds, the maximum
	// 30.
	DrainTimeout time.Duration

	// TLS is used for a kafkas URL. Optional; the default is the system's certificates.
	TLS *tls.Config

	// Options are passed to the client library after the options of this package, for
	// settings that have no field here. Those that this package relies on (acks, idempotence,
	// transactions, commits, group callbacks, hooks that replace others) must not be changed. Optional.
	Options []kgo.Opt

	// Log receives a record if the server does not answer [Open]. Optional; the default is
	// [slog.Default].
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	c.Window = cmp.Or(c.Window, defaultWindow)
	c.CommitInterval = cmp.Or(c.CommitInterval, defaultCommitInterval)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.Log = cmp.Or(c.Log, slog.Default())
	if _, err := parseURL(c.URL); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c Config) check() error {
	switch {
	case len(c.TopicPrefix) > maxPrefixLen:
		return invalidf("TopicPrefix", "has %d bytes, the limit is %d", len(c.TopicPrefix), maxPrefixLen)
	case strings.ContainsFunc(c.TopicPrefix, illegal):
		return invalidf("TopicPrefix", "has a character that is no ASCII letter or digit, '.', '_' or '-'")
	case len(c.TransactionalID) > maxPrefixLen:
		return invalidf("TransactionalID", "has %d bytes, the limit is %d", len(c.TransactionalID), maxPrefixLen)
	case strings.ContainsFunc(c.TransactionalID, illegal):
		return invalidf("TransactionalID", "has a character that is no ASCII letter or digit, '.', '_' or '-'")
	case c.Partitions < 0 || c.Partitions > maxPartitions:
		return invalidf("Partitions", "is %d; the range is 0 to %d", c.Partitions, maxPartitions)
	case c.ReplicationFactor < 0 || c.ReplicationFactor > maxReplicas:
		return invalidf("ReplicationFactor", "is %d; the range is 0 to %d", c.ReplicationFactor, maxReplicas)
	case c.Window < 1:
		return invalidf("Window", "is %d; it must be at least 1", c.Window)
	case c.CommitInterval < minCommitInterval:
		return invalidf("CommitInterval", "is %v; it must be at least %v", c.CommitInterval, minCommitInterval)
	case c.DrainTimeout < 0 || c.DrainTimeout > maxDrainTimeout:
		return invalidf("DrainTimeout", "is %v; the range is 0 to %v", c.DrainTimeout, maxDrainTimeout)
	}
	return nil
}

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "kafkabroker." + field, Reason: fmt.Sprintf(format, args...)}
}
