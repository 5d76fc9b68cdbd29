package natsbroker

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/redact"
)

// Config configures how to reach JetStream, and the stream. The fields from Replicas to
// DuplicateWindow are used only when [Open] creates the stream.
type Config struct {
	// URL is where the servers are, such as "nats://user:password@host:4222"; or several,
	// comma-separated. Schemes are nats, tls, ws and wss. Required unless Conn is set.
	URL string

	// Conn is an existing connection to use instead of URL; Close leaves it open. The
	// broker adds to its disconnect, reconnect and closed handlers. It should be made with
	// nats.ReconnectBufSize(-1) and nats.MaxReconnects(-1). Optional.
	Conn *nats.Conn

	// Options are further options for the connection to URL, such as
	// nats.UserCredentials, applied after the broker's own. Optional.
	Options []nats.Option

	// Stream is the name of the stream. Optional; the default is "waybill".
	Stream string

	// SubjectPrefix prefixes topics to make subjects. It ends with a dot; the stream must hold
	// all subjects that start with it. Optional; the default is "waybill.".
	SubjectPrefix string

	// Replicas is how many servers keep each message, 1 to 5. Optional; the default is 1.
	Replicas int

	// MaxAge is how long the stream keeps a message, received or not. It must not be shorter
	// than DuplicateWindow. Optional; the default is 7 days. [KeepForever] sets no limit.
	MaxAge time.Duration

	// MaxBytes is the size of the stream in bytes at which it refuses messages, as unavailable,
	// until MaxAge has made room. Optional; the default is no limit.
	MaxBytes int64

	// DuplicateWindow is how long the stream remembers deduplication ids. It should exceed
	// the time that a relay may take to repeat an attempt whose outcome it does not know.
	// Optional; the default is 2 minutes.
	DuplicateWindow time.Duration

	// DeclareNothing makes Open and Subscribe create nothing: the stream and the durable
	// consumers must exist, created by [Broker.Apply] for instance. Open then accepts what it
	// finds; [Broker.Ping] and [Broker.Plan] report what is missing or wrong. Optional.
	DeclareNothing bool

	// AckWait is how long the server waits for the settlement of a delivery that is not
	// extended before it redelivers the message. It must exceed three times
	// consumer.ExtendInterval, 15 seconds. Optional; the default is 30 seconds.
	AckWait time.Duration

	// DeliverNew makes a group that the stream does not know yet start with what is published
	// after its first Subscribe, instead of with everything that the stream holds. Optional.
	DeliverNew bool

	// Log receives a record if the server does not answer [Open]. Optional; the default is
	// [slog.Default].
	Log *slog.Logger
}

// KeepForever as [Config.MaxAge] keeps messages without limit of time.
const KeepForever time.Duration = -1

const (
	defaultStream          = "waybill"
	defaultSubjectPrefix   = "waybill."
	defaultMaxAge          = 7 * 24 * time.Hour
	defaultDuplicateWindow = 2 * time.Minute
	defaultAckWait         = 30 * time.Second

	maxNameLen   = 255 // of streams and consumers, by the server
	maxPrefixLen = 255
	minWindow    = 100 * time.Millisecond // of MaxAge and DuplicateWindow, by the server
)

// withDefaults returns c with its zero fields filled in and checked.
func (c Config) withDefaults() (Config, error) {
	c.Stream = cmp.Or(c.Stream, defaultStream)
	c.SubjectPrefix = cmp.Or(c.SubjectPrefix, defaultSubjectPrefix)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.MaxAge = cmp.Or(c.MaxAge, defaultMaxAge)
	c.DuplicateWindow = cmp.Or(c.DuplicateWindow, defaultDuplicateWindow)
	c.AckWait = cmp.Or(c.AckWait, defaultAckWait)
	c.Log = cmp.Or(c.Log, slog.Default())
	for _, check := range []func() error{c.checkServer, c.checkNames, c.checkStream, c.checkAckWait} {
		if err := check(); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c Config) checkServer() error {
	switch {
	case c.URL == "" && c.Conn == nil:
		return invalidf("URL", "either URL or Conn is required")
	case c.URL != "" && c.Conn != nil:
		return invalidf("Conn", "URL is set as well; the broker uses one of them")
	case c.Conn != nil && len(c.Options) > 0:
		return invalidf("Options", "apply to URL, and Conn is set")
	case c.Conn != nil:
		return nil
	}
	for i, part := range strings.Split(c.URL, ",") {
		if redact.Misplaced(part) { // else part of the password is taken for the port, and shown
			return invalidf("URL", "number %d has a '/', '?' or '#' in its password that is not percent-encoded", i+1)
		}
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Host == "" {
			return invalidf("URL", "number %d is no URL with scheme and host", i+1)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return invalidf("URL", "number %d has the scheme %q; nats, tls, ws and wss are known", i+1, u.Scheme)
		}
	}
	return nil
}

func (c Config) checkNames() error {
	if len(c.Stream) > maxNameLen {
		return invalidf("Stream", "has %d bytes, the limit is %d", len(c.Stream), maxNameLen)
	}
	if strings.ContainsFunc(c.Stream, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`.*>/\`, r) }) {
		return invalidf("Stream", `has a space, control character, '.', '*', '>', '/' or '\'`)
	}
	if len(c.SubjectPrefix) > maxPrefixLen {
		return invalidf("SubjectPrefix", "has %d bytes, the limit is %d", len(c.SubjectPrefix), maxPrefixLen)
	}
	tokens, dot := strings.CutSuffix(c.SubjectPrefix, ".")
	if !dot || !validSubject(tokens) || strings.HasPrefix(tokens, "$") {
		return invalidf("SubjectPrefix", "is not a subject without wildcards and '$' that ends with a dot")
	}
	return nil
}

func (c Config) checkStream() error {
	switch {
	case c.Replicas < 1 || c.Replicas > 5:
		return invalidf("Replicas", "is %d; the range is 1 to 5", c.Replicas)
	case c.MaxAge != KeepForever && c.MaxAge < minWindow:
		return invalidf("MaxAge", "is %v; it must be at least %v, or KeepForever", c.MaxAge, minWindow)
	case c.MaxBytes < 0:
		return invalidf("MaxBytes", "is %d; it must not be negative", c.MaxBytes)
	case c.DuplicateWindow < minWindow:
		return invalidf("DuplicateWindow", "is %v; it must be at least %v", c.DuplicateWindow, minWindow)
	case c.MaxAge != KeepForever && c.DuplicateWindow > c.MaxAge:
		return invalidf("DuplicateWindow", "is %v, more than MaxAge, which is %v", c.DuplicateWindow, c.MaxAge)
	}
	return nil
}

func (c Config) checkAckWait() error {
	if least := 3 * contract.ExtendInterval; c.AckWait <= least {
		return invalidf("AckWait", "is %v; it must exceed three times consumer.ExtendInterval, %v", c.AckWait, least)
	}
	return nil
}

// hosts returns the addresses of the servers, without secrets.
func (c Config) hosts() string {
	if c.Conn != nil {
		return c.Conn.ConnectedAddr()
	}
	var list []string
	for _, part := range strings.Split(c.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(part)); err == nil {
			list = append(list, u.Host)
		}
	}
	return strings.Join(list, ",")
}

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "natsbroker." + field, Reason: fmt.Sprintf(format, args...)}
}
