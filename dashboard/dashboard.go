// Package dashboard shows which messages are in flight, which are stuck and why, and lets authorised people fix them,
// as an [http.Handler] that a program mounts at any path.
//
// It denies by default: [New] refuses a configuration that lets everybody in, payloads are hidden from everybody
// without the right to see them, and the audit log records every change with the person who made it. Pages are rendered
// on the server and work without JavaScript; a small script keeps them up to date. Links are relative, so that neither
// a prefix nor a proxy that rewrites paths has to be configured.
package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/traffic"
)

// Store is what a dashboard shows: messages, and dead letters, which operators settle here. Further interfaces that a
// store implements are shown, too:
//
//   - [Replays]: bulk replays are offered.
//   - [inspect.Inbox]: which consumers have handled a message. Without it the history of a message ends with its
//     publishing.
//   - [inspect.Relays]: relays and their lanes.
//   - [schedule.OperatorStore]: schedules and scheduled messages, and changing them.
//   - [saga.OperatorStore]: instances of sagas, and repairing them. They are counted at most every 5 seconds, and less
//     often if that takes long.
//   - [traffic.Store]: the history of traffic. It is read at most every 5 seconds, and less often if that takes long.
//   - [deadletter.Auditor]: viewing a payload is recorded. Without it payloads and header values are never shown.
//
// Every store of this module that keeps messages implements all of these, except that MongoDB has no schedules and
// sagas.
type Store interface {
	Outbox
	deadletter.Store
}

// Outbox is the part of [inspect.Outbox] that a dashboard needs.
type Outbox interface {
	// MessageStates is that of [inspect.Outbox].
	MessageStates(ctx context.Context, id string) ([]inspect.MessageState, error)

	// OutboxMessages is that of [inspect.Outbox]. It is called when somebody searches, and
	// for the latest messages that were published, at most every 5 seconds.
	OutboxMessages(ctx context.Context, f inspect.Filter) ([]inspect.MessageState, error)

	// OutboxStats is that of [inspect.Outbox]. It is called at most every 5 seconds, and
	// less often if it takes long.
	OutboxStats(ctx context.Context) ([]inspect.Stats, error)
}

// Replays is the part of [deadletter.ReplayStore] that a dashboard needs: everything but driving replays. A replay that
// is started here is driven by a process with a relay or consumer.
type Replays interface {
	// PreviewReplay is that of [deadletter.ReplayStore].
	PreviewReplay(ctx context.Context, f deadletter.Filter, inboxRetention time.Duration) (deadletter.Preview, error)

	// StartReplay is that of [deadletter.ReplayStore].
	StartReplay(ctx context.Context, p deadletter.Plan, act deadletter.Act) (int64, error)

	// Replay returns one replay; an unknown number is [waybill.ErrNotFound].
	Replay(ctx context.Context, number int64) (deadletter.Replay, error)

	// Replays is that of [deadletter.ReplayStore].
	Replays(ctx context.Context, limit int) ([]deadletter.Replay, error)

	// CancelReplay is that of [deadletter.ReplayStore].
	CancelReplay(ctx context.Context, number int64, act deadletter.Act) (bool, error)
}

// Level says how grave a finding is.
type Level string

const (
	OK   Level = "ok"      // no problem
	Note Level = "note"    // worth knowing; nothing to do now
	Warn Level = "warning" // it works, but needs attention
	Fail Level = "problem" // it does not work
)

// Finding is the result of one check. Every reader sees it.
type Finding struct {
	Level  Level
	Check  string // what was looked at
	Detail string // what was found
	Advice string // what to do, if it is not OK
}

// Config configures who may use a dashboard, and how it shows a store.
type Config struct {
	// Checks returns findings of the program's own checks. It is called in the background while somebody looks, never
	// concurrently and at most once a minute, with a timeout of a minute; the pages show the latest findings and their
	// time. Optional.
	Checks func(ctx context.Context) []Finding

	// Access says who may do what, such as [Tokens] or [ProxyAccess]. Required unless
	// AllowLoopback is set.
	Access Authenticator

	// AllowLoopback admits, as admin, every request from this machine to this machine: both the sender's address and
	// the Host of the request must be loopback, and the request must not have come through a proxy. For development.
	// Not together with Access.
	AllowLoopback bool

	// TrustedProxies are the addresses whose X-Forwarded-Proto header is trusted. Session cookies are Secure if it says
	// https, or if the request came over TLS. Optional.
	TrustedProxies []netip.Prefix

	// SessionTTL is how long a person who has signed in with a token stays signed in. Optional; the default is 8 hours.
	// Sessions are kept in memory: with several replicas behind one address, configure sticky sessions in the load
	// balancer.
	SessionTTL time.Duration

	// InboxRetention is how long consumers recognise a duplicate; previews of replays warn of dead letters that are
	// older. Optional; the default is 30 days.
	InboxRetention time.Duration

	// Environment is shown next to the name, such as "production". Optional.
	Environment string

	// Logger receives failures and refused sign-ins. Optional; the default is [slog.Default].
	Logger *slog.Logger
}

const (
	defaultSessionTTL     = 8 * time.Hour
	defaultInboxRetention = 30 * 24 * time.Hour

	requestTimeout = 15 * time.Second
)

// check returns an error that names the field which is missing or clashes.
func (c *Config) check() error {
	switch {
	case c.Access == nil && !c.AllowLoopback:
		return invalid("Access", "is required; without it everybody could read and change everything (AllowLoopback is for development)")
	case c.Access != nil && c.AllowLoopback:
		return invalid("AllowLoopback", "is set together with Access, which it would make void")
	case c.SessionTTL < 0:
		return invalid("SessionTTL", "is negative")
	case c.InboxRetention < 0:
		return invalid("InboxRetention", "is negative")
	}
	return nil
}

func invalid(field, reason string) error {
	return &waybill.InvalidError{Field: "dashboard." + field, Reason: reason}
}

// Dashboard is the handler. Mount it below any path with [http.StripPrefix]; it is safe for
// concurrent use.
type Dashboard struct {
	cfg          Config
	access       Authenticator
	signIn       secretChecker // nil without sign-in
	sessions     *sessions
	formKey      [32]byte
	pages        pages
	assets       map[string]asset
	routes       *http.ServeMux
	stats        *cached[[]inspect.Stats]
	flow         *cached[flow]
	checks       *checks
	failures     *failures
	unknownProxy sync.Once // whether sessions exist
	replayed     *progress
	all          stores
	observer     observe.Observer                    // of what operators do
	counts       *cached[[]saga.Count]               // nil without sagas
	traffic      map[string]*cached[traffic.History] // by the name of its span; nil if there is none
	sameSite     *http.CrossOriginProtection
}

// New returns a dashboard of a store, or an error that names the field of cfg that is wrong.
func New(store Store, cfg Config) (*Dashboard, error) {
	if store == nil {
		return nil, invalid("store", "is required")
	}
	return newOf(storesOf(store), cfg)
}

func newOf(all stores, cfg Config) (*Dashboard, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.SessionTTL = cmp.Or(cfg.SessionTTL, defaultSessionTTL)
	cfg.InboxRetention = cmp.Or(cfg.InboxRetention, defaultInboxRetention)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	d := &Dashboard{cfg: cfg, all: all, access: cfg.Access, sessions: newSessions(cfg.SessionTTL), sameSite: http.NewCrossOriginProtection()}
	if cfg.AllowLoopback {
		d.access = loopback{}
	}
	d.signIn, _ = d.access.(secretChecker)
	_, _ = rand.Read(d.formKey[:]) // it never fails
	var err error
	if d.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	if d.pages, err = parsePages(d.assets); err != nil {
		return nil, err
	}
	d.observer = observe.LogTo(cfg.Logger)
	if all.sagas != nil {
		d.counts = newCached(all.sagas.SagaCounts)
	}
	if all.traffic != nil {
		d.traffic = newTraffic(all.traffic)
	}
	d.stats = newCached(all.outbox.OutboxStats)
	d.flow = newCached(d.readFlow)
	d.checks = &checks{make: cfg.Checks, logger: cfg.Logger}
	d.failures = newFailures()
	d.replayed = newProgress()
	d.routes = d.routing()
	return d, nil
}
