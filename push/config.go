package push

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/waybill-go/waybill"
)

// Config configures a [Hub].
type Config struct {
	// Authorize returns what the sender of the request may see. It is called once for each connection,
	// concurrently. An error refuses the client: with 401 if it wraps [ErrUnauthenticated], else with
	// 403; the error's text is neither sent nor logged. Required.
	Authorize func(r *http.Request) (Grant, error)

	// Target returns the target of a message. It is called concurrently and must not change the
	// message. A message for which it panics has no target: its push is a permanent error. Optional;
	// the default is [TargetOf], which reads the message's headers.
	Target func(m *waybill.Message) Target

	// Archive is where reconnecting clients catch up from. It must hold what is pushed: it is the store
	// of the service that enqueues it. Optional; without one each of them is sent a reset.
	Archive Archive

	// CatchUpAge is the maximum age of a client's last event for it to catch up. The archive must be
	// kept for longer. Optional; the default is 1 hour.
	CatchUpAge time.Duration

	// CatchUpLimit is the maximum number of messages that a client may catch up; a client that missed
	// more is sent a reset. 1 to 100,000. Optional; the default is 1,000. There is also a limit of 8
	// MiB.
	CatchUpLimit int

	// MaxCatchUps is how many clients of one [Grant].Account catch up concurrently; others wait up to
	// 30 seconds, and are then sent a reset. At least 1. Optional; the default is 16.
	MaxCatchUps int

	// AllowedOrigins are the origins, such as "https://app.example.com", whose pages may connect in
	// addition to those of the server's host. Optional; the default is none.
	AllowedOrigins []string

	// Buffer is how many messages may wait for one client before it is disconnected. 1 to 65,536.
	// Optional; the default is 128.
	Buffer int

	// MaxClients is the maximum number of connected clients; more are refused with 503.
	// Optional; the default is 10,000.
	MaxClients int

	// WriteTimeout is how long writing one event to a client's socket may take before the client is
	// disconnected. Optional; the default is 10 seconds.
	WriteTimeout time.Duration

	// Heartbeat is how often an idle client is sent a heartbeat, which keeps proxies from closing the
	// connection and detects clients that are gone. Optional; the default is 15 seconds.
	Heartbeat time.Duration

	// Retry is how long browsers are asked to wait before they reconnect. Optional; the default
	// is 3 seconds.
	Retry time.Duration

	// Log receives a record when the hub starts, which says that push is best effort, for each client
	// that is disconnected because it is slow, and when the archive cannot be read. Optional; the
	// default is [slog.Default].
	Log *slog.Logger
}

const (
	maxBuffer       = 1 << 16
	maxCatchUpLimit = 100_000
)

// withDefaults returns c with its zero fields filled in and checked.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.CatchUpAge, time.Hour)
	setDefault(&c.CatchUpLimit, 1000)
	setDefault(&c.MaxCatchUps, 16)
	setDefault(&c.Buffer, 128)
	setDefault(&c.MaxClients, 10_000)
	setDefault(&c.WriteTimeout, 10*time.Second)
	setDefault(&c.Heartbeat, 15*time.Second)
	setDefault(&c.Retry, 3*time.Second)
	setDefault(&c.Log, slog.Default())
	if c.Target == nil {
		c.Target = TargetOf
	}
	return c, c.validate()
}

func setDefault[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }

func (c Config) validate() error {
	switch {
	case c.Authorize == nil:
		return invalidf("Authorize", "is required: nothing is granted by default")
	case c.CatchUpLimit < 1 || c.CatchUpLimit > maxCatchUpLimit:
		return invalidf("CatchUpLimit", "is %d; the range is 1 to %d", c.CatchUpLimit, maxCatchUpLimit)
	case c.MaxCatchUps < 1:
		return invalidf("MaxCatchUps", "is %d; it must be at least 1", c.MaxCatchUps)
	case c.Buffer < 1 || c.Buffer > maxBuffer:
		return invalidf("Buffer", "is %d; the range is 1 to %d", c.Buffer, maxBuffer)
	case c.MaxClients < 1:
		return invalidf("MaxClients", "is %d; it must be at least 1", c.MaxClients)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"CatchUpAge", c.CatchUpAge}, {"WriteTimeout", c.WriteTimeout}, {"Heartbeat", c.Heartbeat}, {"Retry", c.Retry},
	} {
		if d.value < time.Millisecond {
			return invalidf(d.field, "is %v; it must be at least 1ms", d.value)
		}
	}
	for i, origin := range c.AllowedOrigins {
		if u, err := url.Parse(origin); err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return invalidf(fmt.Sprintf("AllowedOrigins[%d]", i), "is not an origin of scheme and host, such as https://app.example.com")
		}
	}
	return nil
}

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "push." + field, Reason: fmt.Sprintf(format, args...)}
}
