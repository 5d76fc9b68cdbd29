package discovery

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// Config configures a [Finder].
type Config struct {
	// Endpoint is the URL of the service, if it is known. It takes precedence, and no broker is asked.
	// AllowedHosts does not apply to it. Optional.
	Endpoint string

	// Enabled switches discovery on. It is the only switch. Optional; the default is false.
	Enabled bool

	// Required makes it an error if there is no service. Without it [Finder.Find] returns a decision
	// without an endpoint. Optional; it requires Endpoint or Enabled.
	Required bool

	// Bus and Group select the service: the one that was announced under the same names. Optional; the
	// defaults are [DefaultBus] and [DefaultGroup].
	Bus, Group string

	// Name is the name of this client, for people. Optional.
	Name string

	// AllowedHosts are the hosts that an announcement may name: "inbox.example.com",
	// "inbox.example.com:8443", "*.example.com" for all subdomains, "*" for any host. Required if
	// discovery is used.
	AllowedHosts []string

	// AllowHTTP also accepts announced URLs without TLS. Optional.
	AllowHTTP bool

	// TrustedKeys are the keys of which one must have signed an announcement. Optional; without any,
	// signatures are ignored.
	TrustedKeys []ed25519.PublicKey

	// Timeout is how long to wait for answers, up to a minute. Optional; the default is 3
	// seconds.
	Timeout time.Duration

	// SelectionWindow is how long to wait for further answers after the first. It must not
	// exceed Timeout. Optional; the default is 150 milliseconds, or Timeout if that is shorter.
	SelectionWindow time.Duration

	// CacheFor is how long a service that was found is cached, up to 24 hours.
	// Optional; the default is 5 minutes.
	CacheFor time.Duration

	// Log receives a record of each decision that differs from the one before, and of the first refused
	// announcement of a search, if the cause is new. Optional; the default is
	// [slog.Default].
	Log *slog.Logger
}

const (
	defaultTimeout         = 3 * time.Second
	defaultSelectionWindow = 150 * time.Millisecond
	defaultCacheFor        = 5 * time.Minute
	maxTimeout             = time.Minute
	maxCacheFor            = 24 * time.Hour
)

// Reason is the reason for a decision.
type Reason string

// The reasons.
const (
	ReasonExplicit    Reason = "explicit-endpoint"  // Config.Endpoint; the broker was not asked
	ReasonDiscovered  Reason = "discovered"         // it was announced
	ReasonCached      Reason = "cached"             // it was announced a while ago
	ReasonDisabled    Reason = "disabled"           // neither Endpoint nor Enabled is set
	ReasonNoneFound   Reason = "none-found"         // no service, or no acceptable one, has answered
	ReasonUnavailable Reason = "broker-unavailable" // the broker could not be asked
)

// Decision is the result of a [Finder].
type Decision struct {
	Reason   Reason
	Endpoint Endpoint // the zero value if there is none; only URL is set if it is explicit
	Accepted int      // services that could have been chosen
	Refused  int      // announcements that were not acceptable
	Err      error    // why the broker could not be asked; nil if it was, or was not needed
}

// ErrNoInbox reports that there is no inbox service, and one is required.
var ErrNoInbox = errors.New("discovery: no inbox service")

// Finder finds the inbox service of one bus and group, and caches it. It is safe for concurrent
// use; concurrent callers share one search.
type Finder struct {
	transport  Transport
	cfg        Config
	bus, group string // as words
	ping       []byte
	allowed    allow

	mu     sync.Mutex
	cached Decision // only its endpoint is used
	until  time.Time
	search *search  // running, or nil
	logged Decision // the last one logged
	denial string   // the last refusal logged
}

// NewFinder returns a finder. The transport may be nil if cfg has an explicit endpoint, or
// discovery is not enabled. The error names the field of cfg that is wrong.
func NewFinder(t Transport, cfg Config) (*Finder, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(t); err != nil {
		return nil, err
	}
	f := &Finder{transport: t, cfg: cfg}
	var err error
	if f.allowed, err = newAllow(cfg.AllowedHosts, cfg.AllowHTTP); err != nil {
		return nil, err
	}
	if f.bus, err = word("Config.Bus", cfg.Bus); err != nil {
		return nil, err
	}
	if f.group, err = word("Config.Group", cfg.Group); err != nil {
		return nil, err
	}
	f.ping, err = json.Marshal(ping{Kind: kindInbox, Name: cfg.Name, Version: versionV1})
	return f, err
}

func (c Config) withDefaults() Config {
	setDefault(&c.Bus, DefaultBus)
	setDefault(&c.Group, DefaultGroup)
	setDefault(&c.Timeout, defaultTimeout)
	setDefault(&c.SelectionWindow, min(defaultSelectionWindow, c.Timeout))
	setDefault(&c.CacheFor, defaultCacheFor)
	setDefault(&c.Log, slog.Default())
	return c
}

func (c *Config) validate(t Transport) error {
	asks := c.Enabled && c.Endpoint == ""
	switch {
	case c.Required && c.Endpoint == "" && !c.Enabled:
		return invalid("Config.Required", "is set, but neither Endpoint nor Enabled is")
	case asks && t == nil:
		return invalid("Transport", "is required")
	case asks && len(c.AllowedHosts) == 0:
		return invalid("Config.AllowedHosts", "is required; it says where an announcement may lead")
	case len(c.Name) > maxNameLen || !isPlain(c.Name):
		return invalid("Config.Name", "must be text without control characters, of at most %d bytes", maxNameLen)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return invalid("Config.Timeout", "is %v; the limit is %v", c.Timeout, maxTimeout)
	case c.SelectionWindow < 0 || c.SelectionWindow > c.Timeout:
		return invalid("Config.SelectionWindow", "is %v; it must not exceed Timeout, which is %v", c.SelectionWindow, c.Timeout)
	case c.CacheFor < 0 || c.CacheFor > maxCacheFor:
		return invalid("Config.CacheFor", "is %v; the limit is %v", c.CacheFor, maxCacheFor)
	}
	if c.Endpoint != "" {
		if _, err := parseURL("Config.Endpoint", c.Endpoint); err != nil {
			return err
		}
	}
	return validKeys(c.TrustedKeys)
}

// Find returns the service to use, from the cache or by asking the broker, which takes up to
// Timeout. If there is no service the decision has no endpoint; if one is required the error is
// [ErrNoInbox], unavailable. It is an error, too, if ctx ends first.
func (f *Finder) Find(ctx context.Context) (Decision, error) {
	switch {
	case f.cfg.Endpoint != "":
		return f.result(Decision{Reason: ReasonExplicit, Endpoint: Endpoint{URL: f.cfg.Endpoint}})
	case !f.cfg.Enabled:
		return f.result(Decision{Reason: ReasonDisabled})
	}
	s, cached := f.join()
	if s == nil {
		return cached, nil
	}
	select {
	case <-s.done:
		return f.result(s.decision)
	case <-ctx.Done():
		return Decision{}, waybill.UnavailableError(context.Cause(ctx))
	}
}

// Invalidate removes the service with the given URL from the cache, because it does not answer. The
// next Find then asks the broker.
func (f *Finder) Invalidate(url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cached.Endpoint.URL == url {
		f.until = time.Time{}
	}
}

// join returns the cached decision, or the running search, which it starts if there is none.
func (f *Finder) join() (*search, Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().Before(f.until) {
		return nil, f.cached
	}
	if f.search == nil {
		f.search = newSearch(f)
		go f.run(f.search)
	}
	return f.search, Decision{}
}

// run asks the broker. It continues if the caller that started it stops waiting: others may wait.
func (f *Finder) run(s *search) {
	s.run()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.search = nil
	if s.decision.Reason == ReasonDiscovered {
		f.cached, f.until = s.decision, time.Now().Add(f.cfg.CacheFor)
		f.cached.Reason = ReasonCached
	}
	close(s.done)
}

// result logs a decision, if it differs from the one before, and returns it.
func (f *Finder) result(d Decision) (Decision, error) {
	f.log(d)
	if f.cfg.Required && d.Endpoint.URL == "" {
		return d, d.missing()
	}
	return d, nil
}

// missing returns the error of a decision without an endpoint.
func (d Decision) missing() error {
	if d.Err != nil {
		return waybill.UnavailableError(fmt.Errorf("%w: %s: %w", ErrNoInbox, d.Reason, d.Err))
	}
	return waybill.UnavailableError(fmt.Errorf("%w: %s", ErrNoInbox, d.Reason))
}

func (f *Finder) log(d Decision) {
	f.mu.Lock()
	same := d.Reason == f.logged.Reason && d.Endpoint == f.logged.Endpoint
	f.logged = d
	f.mu.Unlock()
	if same {
		return
	}
	level := slog.LevelInfo
	if d.Reason == ReasonNoneFound || d.Reason == ReasonUnavailable {
		level = slog.LevelWarn
	}
	attrs := []any{
		"name", d.Endpoint.Name, "url", d.Endpoint.URL, "bus", f.cfg.Bus, "group", f.cfg.Group,
		"accepted", d.Accepted, "refused", d.Refused,
	}
	if d.Err != nil {
		attrs = append(attrs, "error", observe.ErrorText(d.Err))
	}
	f.cfg.Log.Log(context.Background(), level, "inbox service: "+string(d.Reason), attrs...)
}

// logRefusal logs why an announcement was refused, unless the last one was refused for the same reason.
func (f *Finder) logRefusal(err error) {
	text := observe.ErrorText(err)
	f.mu.Lock()
	same := text == f.denial
	f.denial = text
	f.mu.Unlock()
	if !same {
		f.cfg.Log.Warn("inbox service: announcement refused", "error", text, "bus", f.cfg.Bus, "group", f.cfg.Group)
	}
}
