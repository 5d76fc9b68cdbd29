package asbbroker

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

const (
	defaultConnectTimeout = 10 * time.Second
	defaultLockDuration   = time.Minute
	minLockDuration       = 3*contract.ExtendInterval + time.Second
	maxLockDuration       = 5 * time.Minute // the service's
	minDuplicateWindow    = 20 * time.Second
	maxDuplicateWindow    = 7 * 24 * time.Hour
	maxReceiveBatch       = 1000
)

// Config configures the namespace to use, and how entities are named and declared.
type Config struct {
	// URL is the namespace's connection string, "Endpoint=sb://…;SharedAccessKeyName=…;
	// SharedAccessKey=…", or the same as "servicebus://name:key@namespace.servicebus.windows.net",
	// with the key escaped as in any URL. "?emulator=true" is UseDevelopmentEmulator=true: no TLS.
	// Required.
	URL string

	// TopicPrefix and QueuePrefix prefix the names of topics and of queues. Topics and queues share
	// one set of names: a topic and a destination (Message.To) of one name need different prefixes.
	// Optional; the default is none.
	TopicPrefix, QueuePrefix string

	// DeclareNothing says that the entities are created elsewhere, and that the key may only send
	// and listen. Optional; by default Subscribe creates those that are missing, for which the key
	// needs the right to manage.
	DeclareNothing bool

	// LockDuration is how long a subscription or queue that is created here keeps a delivery locked
	// to its receiver. The lock of a delivery that is held for longer is renewed; deliveries of a
	// dead consumer are redelivered after it. From 16 seconds to 5 minutes. Optional; the default
	// is 1 minute.
	LockDuration time.Duration

	// DuplicateWindow is how long a topic or queue that is created here remembers message ids and
	// silently drops duplicates. From 20 seconds to 7 days. Optional; by default it is 0:
	// duplicates are not detected.
	DuplicateWindow time.Duration

	// Sessions makes the ordering key the session id and lets each session have only one receiver
	// at once, so that order per key holds across replicas. Subscriptions and queues that exist
	// cannot change it. Optional; the default is false.
	Sessions bool

	// ReceiveBatch is how many messages are requested at once. With 1, messages arrive in the order
	// of the entity. With more, the client library may release messages that arrive between two
	// requests, and later ones overtake them. Up to 1000. Optional; the default is 1.
	ReceiveBatch int

	// MaxPayload is the largest payload, in bytes, that is sent. Optional; by default it is what
	// the service says when it is connected to, 256 KiB in the tier Standard.
	MaxPayload int

	// ConnectTimeout bounds how long connecting and declaring may take. Optional; the default is
	// 10 seconds.
	ConnectTimeout time.Duration

	// HTTPClient declares entities. Optional; the default is that of the client library.
	HTTPClient *http.Client

	// Log receives a record if the server does not answer [Open]. Optional; the default is
	// [slog.Default].
	Log *slog.Logger
}

// withDefaults returns c with its empty fields filled in and checked, the connection string, and
// the namespace's host for error texts.
func (c Config) withDefaults() (_ Config, connection, host string, _ error) {
	connection, host, err := parseURL(c.URL)
	if err != nil {
		return c, "", "", err
	}
	c.LockDuration = cmp.Or(c.LockDuration, defaultLockDuration)
	c.ReceiveBatch = cmp.Or(c.ReceiveBatch, 1)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnectTimeout)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c, connection, host, c.validate()
}

func (c *Config) validate() error {
	switch {
	case c.LockDuration < minLockDuration || c.LockDuration > maxLockDuration:
		return invalid("LockDuration", "is %v, the range is %v to %v", c.LockDuration, minLockDuration, maxLockDuration)
	case c.DuplicateWindow != 0 && (c.DuplicateWindow < minDuplicateWindow || c.DuplicateWindow > maxDuplicateWindow):
		return invalid("DuplicateWindow", "is %v, the range is %v to %v", c.DuplicateWindow, minDuplicateWindow, maxDuplicateWindow)
	case c.ReceiveBatch < 1 || c.ReceiveBatch > maxReceiveBatch:
		return invalid("ReceiveBatch", "is %d, the range is 1 to %d", c.ReceiveBatch, maxReceiveBatch)
	case c.MaxPayload < 0:
		return invalid("MaxPayload", "is %d; it must be positive", c.MaxPayload)
	case c.ConnectTimeout < 0:
		return invalid("ConnectTimeout", "is %v; it must be positive", c.ConnectTimeout)
	}
	return nil
}

// parseURL returns the connection string that a URL stands for. Errors quote nothing of it.
func parseURL(s string) (connection, host string, _ error) {
	if s == "" {
		return "", "", invalid("URL", "is required")
	}
	if !strings.HasPrefix(s, "servicebus://") {
		return s, endpointHost(s), checkConnection(s)
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User == nil {
		return "", "", invalid("URL", "is not servicebus://name:key@namespace.servicebus.windows.net")
	}
	key, ok := u.User.Password()
	if !ok {
		return "", "", invalid("URL", "has no key; it is servicebus://name:key@namespace.servicebus.windows.net")
	}
	connection = fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s", u.Host, u.User.Username(), key)
	if u.Query().Get("emulator") == "true" {
		connection += ";UseDevelopmentEmulator=true"
	}
	return connection, u.Host, nil
}

// field returns a field of a connection string, or "".
func field(connection, name string) string {
	for _, part := range strings.Split(connection, ";") {
		if key, value, _ := strings.Cut(part, "="); strings.EqualFold(strings.TrimSpace(key), name) {
			return value
		}
	}
	return ""
}

func endpointHost(connection string) string {
	if u, err := url.Parse(field(connection, "Endpoint")); err == nil {
		return u.Host
	}
	return ""
}

func checkConnection(s string) error {
	switch {
	case endpointHost(s) == "":
		return invalid("URL", "has no Endpoint=sb://…; it is a connection string or servicebus://name:key@namespace")
	case field(s, "EntityPath") != "":
		return invalid("URL", "is the connection string of one entity; that of the namespace is needed")
	case field(s, "SharedAccessSignature") == "" && (field(s, "SharedAccessKeyName") == "" || field(s, "SharedAccessKey") == ""):
		return invalid("URL", "has no SharedAccessKeyName and SharedAccessKey")
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
