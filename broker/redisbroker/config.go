package redisbroker

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/internal/redisurl"
)

// Config configures how to reach Redis and how streams are used.
type Config struct {
	// URL is redis://user:password@host:port/number, or rediss:// for TLS. A Cluster names its
	// further nodes as parameters addr=host:port. With the parameter master_name all hosts are
	// Sentinels, and user, password and number are for the master of that name that they watch;
	// sentinel_username and sentinel_password are for the Sentinels. Required unless Options is set.
	URL string

	// Options is used instead of URL, for custom TLS settings, for example. MaxRetries and
	// ContextTimeoutEnabled are set by the broker, which repeats nothing whose outcome is unknown.
	// Optional.
	Options *redis.UniversalOptions

	// Prefix begins the name of each key. Any text of up to 100 bytes without braces and NUL.
	// Optional; the default is "waybill:".
	Prefix string

	// Replicas is how many replicas must have a message before it counts as published (WAIT, for
	// up to two seconds). With fewer the outcome is unknown: the message is published again
	// later. Optional; the default is 0.
	Replicas int

	// MaxPayload is the largest payload in bytes that is published; a larger one is refused as
	// too large. Optional; the default is [waybill.MaxPayloadLen].
	MaxPayload int

	// ClaimAfter is for how long a delivery may be neither settled nor extended before another
	// subscriber of its group takes it over. It must exceed three times consumer.ExtendInterval,
	// 15 seconds. Optional; the default is 30 seconds.
	ClaimAfter time.Duration

	// KeepFor is how long an entry stays in its stream although all groups have acknowledged it: for
	// later groups, and for other readers. It is at least a millisecond. Optional; by default
	// entries stay no longer than needed.
	KeepFor time.Duration

	// Log receives a record if the server does not answer [Open]. Optional; the default is
	// [slog.Default].
	Log *slog.Logger
}

const (
	defaultPrefix     = "waybill:"
	defaultClaimAfter = 30 * time.Second

	maxPrefixLen = 100

	// maxReaders is how many addresses a process may receive from: each holds a connection
	// while it waits for messages.
	maxReaders = 10_000
)

// withDefaults returns c with its zero fields filled in and checked.
func (c Config) withDefaults() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.MaxPayload = cmp.Or(c.MaxPayload, waybill.MaxPayloadLen)
	c.ClaimAfter = cmp.Or(c.ClaimAfter, defaultClaimAfter)
	c.Log = cmp.Or(c.Log, slog.Default())
	switch least := 3 * contract.ExtendInterval; {
	case c.URL == "" && c.Options == nil:
		return c, invalidf("URL", "either URL or Options is required")
	case redact.Misplaced(c.URL): // else part of the password is taken for the port, and shown
		return c, invalidf("URL", "has a '/', '?' or '#' in its password that is not percent-encoded")
	case c.URL != "" && c.Options != nil:
		return c, invalidf("Options", "URL is set as well; the broker uses one of them")
	case len(c.Prefix) > maxPrefixLen:
		return c, invalidf("Prefix", "has %d bytes, the limit is %d", len(c.Prefix), maxPrefixLen)
	case strings.ContainsAny(c.Prefix, "{}\x00"):
		return c, invalidf("Prefix", "holds a brace or a NUL")
	case c.Replicas < 0:
		return c, invalidf("Replicas", "is %d; it must not be negative", c.Replicas)
	case c.MaxPayload < 0:
		return c, invalidf("MaxPayload", "is %d; it must be positive", c.MaxPayload)
	case c.ClaimAfter <= least:
		return c, invalidf("ClaimAfter", "is %v; it must exceed three times consumer.ExtendInterval, %v", c.ClaimAfter, least)
	case c.KeepFor != 0 && c.KeepFor < time.Millisecond:
		return c, invalidf("KeepFor", "is %v; it must be at least %v", c.KeepFor, time.Millisecond)
	}
	return c, nil
}

// client returns a client that opens connections when it needs them, poolSize at most; 0 leaves the
// number to the client library, or to URL or Options.
func (c Config) client(poolSize int) (redis.UniversalClient, error) {
	tune := func(retries *int, deadlines *bool, size *int) {
		*retries, *deadlines, *size = -1, true, cmp.Or(poolSize, *size)
	}
	options, err := c.universal()
	switch {
	case err != nil:
		return nil, errURL
	case options != nil:
		o := *options
		tune(&o.MaxRetries, &o.ContextTimeoutEnabled, &o.PoolSize)
		return redis.NewUniversalClient(&o), nil
	case strings.Contains(c.URL, "addr="):
		o, err := redis.ParseClusterURL(c.URL)
		if err != nil {
			return nil, errURL
		}
		tune(&o.MaxRetries, &o.ContextTimeoutEnabled, &o.PoolSize)
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(c.URL)
	if err != nil {
		return nil, errURL
	}
	tune(&o.MaxRetries, &o.ContextTimeoutEnabled, &o.PoolSize)
	return redis.NewClient(o), nil
}

// universal returns Options, or those of a URL of Sentinels, or nil.
func (c Config) universal() (*redis.UniversalOptions, error) {
	if c.Options != nil {
		return c.Options, nil
	}
	return redisurl.Sentinels(c.URL)
}

// hosts returns the addresses of Redis, for the log.
func (c Config) hosts() string {
	if c.Options != nil {
		return strings.Join(c.Options.Addrs, ",")
	}
	u, err := url.Parse(c.URL)
	if err != nil { // refused by client
		return ""
	}
	return u.Host
}

// errURL does not include the client library's error, which may quote a password.
var errURL = invalidf("URL", "is not redis://user:password@host:port/number, or a parameter of it is not known")

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "redisbroker." + field, Reason: fmt.Sprintf(format, args...)}
}
