// Package idempotency lets clients of an HTTP API repeat a request without repeating its
// effect, by the header Idempotency-Key of the IETF draft. It is middleware for the handlers of
// your API; for messages use package inbox.
//
// The first request with a key runs the handler, and its response is stored before it is sent. A
// repetition gets the stored response, without running the handler. While the first request is in
// progress a repetition is answered 409. The same key with another payload is answered 422, then
// and later.
//
// A lease marks a request as in progress. A process that dies before the response is stored leaves
// only the lease: once that has ended, the next repetition runs the handler again, although the
// first run may have had its effect. So the effect happens at least once,
// and more than once only after a crash or an outage. A handler that must exclude that, too, writes
// the key into its database, in the transaction of its effect.
package idempotency

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// The limits.
const (
	MaxKeyLen = 255                 // of a key, in bytes
	MaxTTL    = 30 * 24 * time.Hour // Config.TTL
	MinTTL    = time.Minute

	MaxLeaseTTL = 10 * time.Minute // Config.LeaseTTL
	MinLeaseTTL = time.Second

	MaxSize = 64 << 20 // Config.MaxBody and Config.MaxResponse, in bytes
)

// Responses stores the responses of handlers. Stores may implement it; it is safe for concurrent
// use. An error is unavailable if the store does not answer.
type Responses interface {
	// FindResponse returns the response stored under key, and false if there is none or it has expired.
	FindResponse(ctx context.Context, key string) (response []byte, found bool, err error)

	// SaveResponse stores a response under key for the given time, unless one is already stored there.
	// It may be repeated.
	SaveResponse(ctx context.Context, key string, response []byte, ttl time.Duration) error
}

// Config configures the middleware.
type Config struct {
	// Methods are the methods that require a key; requests with other methods are passed through. Optional;
	// the default is POST, PUT, PATCH and DELETE.
	Methods []string

	// AllowMissing lets requests without a key run as often as they arrive. Optional; they are
	// answered 400 by default.
	AllowMissing bool

	// Tenant returns the owner of the keys of a request: two tenants may use one key, and neither is
	// ever sent the other's response. It should be the authenticated identity, so authentication goes
	// before this middleware. It must be text of up to 100 bytes; requests with "" run as often as they
	// arrive. Required unless Shared is set.
	Tenant func(r *http.Request) string

	// Shared lets all clients share their keys: a client that repeats another client's request is sent
	// that client's response. For servers with one client, or with public responses. Not together with
	// Tenant.
	Shared bool

	// Keep reports whether a response with this status is stored, so that repetitions are answered
	// with it. Optional; the default is [Keep].
	Keep func(status int) bool

	// ConflictStatus is the answer to a key that is used with another payload: 422 or 409. Optional; the
	// default is 422.
	ConflictStatus int

	// TTL is how long responses are kept, [MinTTL] to [MaxTTL]. After that a key counts as new.
	// Optional; the default is 24 hours.
	TTL time.Duration

	// LeaseTTL is how long a key stays leased after the process that runs its handler has died,
	// [MinLeaseTTL] to [MaxLeaseTTL], at most TTL. While the handler runs the lease is renewed
	// each third of it; if that fails the handler's context ends a sixth of it before the lease
	// does. Optional; the default is 30 seconds.
	LeaseTTL time.Duration

	// MaxBody is the maximum size of a request body in bytes, up to [MaxSize]; a longer one is answered
	// 413. It is held in memory. Optional; the default is 1 MiB.
	MaxBody int

	// MaxResponse is the maximum size of a stored response in bytes, up to [MaxSize]. A longer one is
	// sent, but not stored, so that a repetition runs the handler again. Optional; the default
	// is 1 MiB.
	MaxResponse int

	// Headers are the names of the response headers that are stored. They should not include cookies.
	// Optional; the default is the headers that describe the body (Content-Type, Content-Encoding,
	// Content-Language, Content-Disposition, ETag, Last-Modified, Vary) or a location (Location,
	// Content-Location, Link).
	Headers []string

	// Logger receives failures of the stores, never keys and payloads. Optional; the default is
	// [slog.Default].
	Logger *slog.Logger
}

var (
	defaultMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	defaultHeaders = []string{
		"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Etag", "Last-Modified", "Vary",
		"Location", "Content-Location", "Link",
	}
)

func (c *Config) complete() error {
	c.Methods, c.Headers = slices.Clone(c.Methods), slices.Clone(c.Headers)
	if c.Methods == nil {
		c.Methods = defaultMethods
	}
	if c.Headers == nil {
		c.Headers = defaultHeaders
	}
	if c.Keep == nil {
		c.Keep = Keep
	}
	c.ConflictStatus = cmp.Or(c.ConflictStatus, http.StatusUnprocessableEntity)
	c.TTL = cmp.Or(c.TTL, 24*time.Hour)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 30*time.Second)
	c.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	c.MaxResponse = cmp.Or(c.MaxResponse, 1<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c.check()
}

func (c *Config) check() error {
	switch {
	case c.Tenant == nil && !c.Shared:
		return invalid("Tenant", "is required; without it a client could be sent another one's response (Shared is for servers where that does no harm)")
	case c.Tenant != nil && c.Shared:
		return invalid("Shared", "is set, which does not go with Tenant")
	case slices.ContainsFunc(c.Methods, func(m string) bool { return m == "" || m != strings.ToUpper(m) }):
		return invalid("Methods", "holds one that is empty or not in capitals")
	case c.ConflictStatus != http.StatusUnprocessableEntity && c.ConflictStatus != http.StatusConflict:
		return invalid("ConflictStatus", "is %d, neither 422 nor 409", c.ConflictStatus)
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return invalid("TTL", "is %v, the range is %v to %v", c.TTL, MinTTL, MaxTTL)
	case c.LeaseTTL < MinLeaseTTL || c.LeaseTTL > MaxLeaseTTL:
		return invalid("LeaseTTL", "is %v, the range is %v to %v", c.LeaseTTL, MinLeaseTTL, MaxLeaseTTL)
	case c.LeaseTTL > c.TTL:
		return invalid("LeaseTTL", "is %v, more than TTL, which is %v", c.LeaseTTL, c.TTL)
	case c.MaxBody < 0 || c.MaxBody > MaxSize:
		return invalid("MaxBody", "is %d, the range is 1 to %d", c.MaxBody, MaxSize)
	case c.MaxResponse < 0 || c.MaxResponse > MaxSize:
		return invalid("MaxResponse", "is %d, the range is 1 to %d", c.MaxResponse, MaxSize)
	}
	return nil
}

// Keep reports whether a response with this status is stored by default: not if it asks for a retry
// (5xx, 408, 425, 429) or refuses the client (401, 403, 407), since the same request may succeed
// later.
func Keep(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < http.StatusInternalServerError
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// New returns middleware that guards a handler, with the state in two stores, which may be one. An
// error names the field of cfg that is wrong.
//
// Requests are the same if tenant, key, method and path are. Any difference in query or body makes another
// payload. A response is stored if [Config].Keep says so and it is not too long; otherwise, and after a panic,
// the key is released. A stored response is replayed with the header Idempotency-Replayed, and
// X-Idempotent-Replay for older clients.
//
// Each problem is answered as application/problem+json with a code: IDEMPOTENCY_KEY_MISSING,
// IDEMPOTENCY_KEY_MALFORMED, IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_BODY, and
// IDEMPOTENCY_UNAVAILABLE if a store does not answer: then the handler is not run.
//
// The handler finds its lease with [lease.FromContext]. Its response is held back until it has
// returned, so it cannot flush or hijack.
func New(leases lease.Store, responses Responses, cfg Config) (func(http.Handler) http.Handler, error) {
	switch {
	case leases == nil:
		return nil, invalid("leases", "is required")
	case responses == nil:
		return nil, invalid("responses", "is required")
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return &guard{leases: leases, responses: responses, cfg: cfg, next: next}
	}, nil
}
