package rabbitbroker

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// The values of [Config.QueueType].
const (
	ClassicQueue = "classic" // kept by one node
	QuorumQueue  = "quorum"  // replicated; RabbitMQ 3.10 or newer for retries
)

const (
	defaultExchange       = "waybill"
	defaultConnectTimeout = 10 * time.Second
	defaultHeartbeat      = 10 * time.Second
	defaultMaxPayload     = 128 << 20 // the server's own default up to 3.13
	maxShortString        = 255       // AMQP's limit for names, keys and most properties
)

// Config configures how to reach a RabbitMQ server and what to declare there.
type Config struct {
	// URL is the server's address, "amqp://user:password@host:port/vhost" or "amqps://…", or those of several
	// nodes of one cluster, comma-separated: connections are made to the nodes in rotation, and to the next
	// one if that fails. A query may set heartbeat, connection_timeout, channel_max and the paths of TLS
	// files, as RabbitMQ's URI specification has them. Required.
	URL string

	// Exchange is the durable topic exchange, with topics as routing keys. Publishers and subscribers declare
	// it. Optional; the default is "waybill".
	Exchange string

	// QueueType is the type that queues must have, [ClassicQueue] or [QuorumQueue]. A queue that exists keeps
	// its type: subscribing to it with another one fails. Optional; the default makes quorum queues, classic
	// ones on a server older than RabbitMQ 3.8, and uses an existing classic queue as it is, which is logged
	// once.
	QueueType string

	// DeadLetterExchange names a durable fanout exchange, with a queue of that name bound to it, for messages
	// that the server itself removes from a queue: rejected by another program, expired by a policy, or beyond
	// the length limit of one. Without it they are dropped. Messages that a consumer of this project
	// dead-letters are not among them. As with SingleActiveConsumer, a queue that exists keeps its setting.
	// Optional; the default is none.
	DeadLetterExchange string

	// SingleActiveConsumer makes the server deliver from a queue to only one consumer at once, so that order
	// holds across replicas. As with QueueType, a queue that exists keeps its setting. Optional; the default
	// is false.
	SingleActiveConsumer bool

	// DeclareNothing makes Open and Subscribe declare nothing: exchange, queues and bindings must exist,
	// created by [Broker.Apply] for instance, so that the program needs no right to create them. Only retry
	// queues and reply queues, which are temporary, are declared anyway. Optional.
	DeclareNothing bool

	// ConnectTimeout bounds how long making a connection to a node may take, handshake included, and for how
	// long a node may confirm nothing of what is in flight before messages are published over another
	// connection: up to four times as long while the next one is as slow. Optional; the default is 10 seconds.
	ConnectTimeout time.Duration

	// Heartbeat is the interval, in whole seconds, after which a silent connection is probed; it is dropped
	// after one and a half of them. The server may ask for a shorter one, and a heartbeat in URL takes
	// precedence. Optional; the default is 10 seconds.
	Heartbeat time.Duration

	// MaxPayload is the largest payload, in bytes, that is sent to the server; a larger one is refused. It
	// should be the server's max_message_size, which cannot be read from it. Optional; the default is 128 MiB,
	// the server's own default.
	MaxPayload int

	// TLS is used for an amqps URL. Optional; the default is the system's certificates, or
	// the files that URL names.
	TLS *tls.Config

	// Log receives a record for each queue that is used although it was declared differently from new ones,
	// and one if the server does not answer [Open]. Optional; the default is [slog.Default].
	Log *slog.Logger
}

// withDefaults returns c with its empty fields filled in and checked, and the nodes of its URL.
func (c Config) withDefaults() (Config, []node, error) {
	nodes, err := nodesOf(c.URL)
	if err != nil {
		return c, nil, err
	}
	c.Exchange = cmp.Or(c.Exchange, defaultExchange)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnectTimeout)
	c.Heartbeat = cmp.Or(c.Heartbeat, defaultHeartbeat)
	c.MaxPayload = cmp.Or(c.MaxPayload, defaultMaxPayload)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c, nodes, c.validate()
}

func (c *Config) validate() error {
	if err := validName("Exchange", c.Exchange); err != nil && c.Exchange != "amq.topic" {
		return err
	}
	if c.QueueType != "" && c.QueueType != ClassicQueue && c.QueueType != QuorumQueue {
		return invalid("QueueType", "must be empty, %q or %q", ClassicQueue, QuorumQueue)
	}
	if err := validName("DeadLetterExchange", c.DeadLetterExchange); err != nil {
		return err
	}
	if c.DeadLetterExchange == c.Exchange {
		return invalid("DeadLetterExchange", "is Exchange; topics and dead letters need one each")
	}
	if c.ConnectTimeout < 0 {
		return invalid("ConnectTimeout", "is %v; it must be positive", c.ConnectTimeout)
	}
	if c.Heartbeat < time.Second || c.Heartbeat > time.Hour || c.Heartbeat%time.Second != 0 {
		return invalid("Heartbeat", "is %v; it must be whole seconds, from 1 second to 1 hour", c.Heartbeat)
	}
	if c.MaxPayload < 0 {
		return invalid("MaxPayload", "is %d; it must be positive", c.MaxPayload)
	}
	return nil
}

// validName checks the name of a queue or an exchange that is to be declared.
func validName(field, name string) error {
	switch {
	case len(name) > maxShortString:
		return invalid(field, "has %d bytes, the limit is %d", len(name), maxShortString)
	case strings.HasPrefix(name, "amq."):
		return invalid(field, "starts with \"amq.\", which RabbitMQ keeps for itself")
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
