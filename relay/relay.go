package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/observe"
)

// Relay moves messages from one source to one or several destinations. Its core, package relaycore,
// decides what to do; the rest of the relay carries that out.
type Relay struct {
	src    contract.Source
	ahead  contract.AheadSource // src, nil if it is no AheadSource
	limits *limits
	cfg    Config
	main   []*destination          // those that messages are routed to
	dests  map[string]*destination // by name, followers included
	// undivided are the names of main, if every message goes to each of them; else nil.
	undivided []string
	name      nameWatch
	last      last

	running atomic.Bool
	latest  atomic.Pointer[run] // nil before the first
}

// last is the data of Status that is read from reports.
type last struct {
	mu        sync.Mutex
	published time.Time
	failed    time.Time
	err       string
}

// New returns a relay that publishes every message of src to pub. The error is an
// [*waybill.InvalidError] that names what is missing or wrong.
func New(src contract.Source, pub contract.Publisher, cfg Config) (*Relay, error) {
	if pub == nil {
		return nil, &waybill.InvalidError{Field: "pub", Reason: "a publisher is required"}
	}
	return NewFanout(src, []Destination{{Publisher: pub}}, cfg)
}

// NewFanout returns a relay that publishes each message of src to every destination that
// matches it, each with separate attempts. A message that matches none is unroutable.
func NewFanout(src contract.Source, destinations []Destination, cfg Config) (*Relay, error) {
	if src == nil {
		return nil, &waybill.InvalidError{Field: "src", Reason: "a source is required"}
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Relay{src: src, limits: newLimits(&cfg), cfg: cfg, dests: make(map[string]*destination)}
	r.ahead, _ = src.(contract.AheadSource)
	r.name.relays, _ = src.(inspect.Relays)
	if err := r.addDestinations(destinations); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Relay) addDestinations(destinations []Destination) error {
	if len(destinations) == 0 {
		return &waybill.InvalidError{Field: "destinations", Reason: "at least one is required"}
	}
	for i, d := range slices.Concat(destinations, r.cfg.Followers) {
		if d.Publisher == nil {
			return &waybill.InvalidError{Field: "Destination.Publisher", Reason: fmt.Sprintf("destination %q has none", d.Name)}
		}
		if r.dests[d.Name] != nil {
			return &waybill.InvalidError{Field: "Destination.Name", Reason: fmt.Sprintf("%q is used twice", d.Name)}
		}
		if !(d.Rate >= 0 && d.Rate <= maxRate) {
			return &waybill.InvalidError{Field: "Destination.Rate", Reason: fmt.Sprintf("is %v, the range is 0 to %d messages per second", d.Rate, int(maxRate))}
		}
		if len(d.Name) > waybill.MaxTopicLen {
			return &waybill.InvalidError{Field: "Destination.Name", Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(d.Name), waybill.MaxTopicLen)}
		}
		r.dests[d.Name] = &destination{Destination: d, follower: i >= len(destinations), late: confirmsLate(d.Publisher)}
	}
	divided := false
	for _, d := range destinations {
		r.main = append(r.main, r.dests[d.Name])
		r.undivided = append(r.undivided, d.Name)
		divided = divided || d.Match != nil
	}
	if divided {
		r.undivided = nil
	}
	if len(r.dests) > 1 && r.dests[""] != nil && len(r.main) > 1 {
		return &waybill.InvalidError{Field: "Destination.Name", Reason: "is empty; each of several destinations needs a name"}
	}
	return nil
}

// Run moves messages until ctx is done. It then stops claiming, lets batches in flight finish for
// at most ShutdownGrace, releases its lanes and returns nil: a shutdown counts no attempt. Errors
// of the source and of destinations are observed, waited out and survived. A relay runs once at a
// time; a second Run returns an error.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("relay: is running already")
	}
	defer r.running.Store(false)

	// What is in flight outlives ctx by the grace period.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	current := r.newRun(ctx, work)
	r.latest.Store(current)
	r.name.due, r.name.expires = time.Time{}, time.Time{}
	r.name.taken.Store(false)

	var told sync.WaitGroup
	told.Go(current.tell)
	current.workers.Go(func() { r.maintainArchive(ctx) })
	current.beginRecording()
	current.own(ctx.Done())
	current.endRecording()
	stop()
	current.workers.Wait()
	current.reports <- current.untold
	close(current.reports)
	told.Wait()
	return r.leave(context.WithoutCancel(ctx))
}

func (r *Relay) coreConfig() relaycore.Config {
	c := r.cfg
	core := relaycore.Config{
		BatchSize: c.BatchSize, Parallel: c.Parallelism, Strict: c.Mode == Strict,
		Retry: c.Retry, NoDeadLetters: c.DisableDeadLetters, Order: relaycore.Order(c.Order), TopicOrder: make(map[string]relaycore.Order),
		MaxParked: c.MaxParkedMessages, MaxParkedKeys: c.MaxParkedKeys,
		LeaseTTL: c.LeaseTTL, RenewInterval: c.RenewInterval, PublishTimeout: c.PublishTimeout, PollInterval: c.PollInterval,
		CallTimeout: c.callTimeout(), Seed: rand.Uint64(), Ahead: r.ahead != nil,
	}
	for topic, order := range c.TopicOrder {
		core.TopicOrder[topic] = relaycore.Order(order)
	}
	for _, o := range r.main {
		core.Dests = append(core.Dests, relaycore.Dest{Name: o.Name, Rate: o.Rate, Late: o.late})
	}
	for _, f := range c.Followers {
		core.Followers = append(core.Followers, relaycore.Dest{Name: f.Name, Rate: f.Rate, Late: r.dests[f.Name].late})
	}
	return core
}

// leave releases the lanes. A failure is no failure of Run: the lease expires by itself.
func (r *Relay) leave(ctx context.Context) error {
	_, err := call(ctx, &patience{limit: r.cfg.PublishTimeout}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.src.LeaveLanes(ctx, r.cfg.Node)
	})
	if err != nil {
		r.observe(ctx, observe.Event{Op: observe.OpLoop, Loop: "relay leave", Err: fmt.Errorf("give lanes back: %w", err)})
	}
	return nil
}

// Status is a snapshot of a relay.
type Status struct {
	Node            string
	Running         bool
	Lanes           int           // owned now
	Lease           time.Duration // time left; negative if it has expired
	Held            int           // messages claimed and not yet settled
	Published       int64         // messages accepted by destinations since the relay was made
	Retried         int64         // failures that will be retried
	Dead            int64         // messages dead-lettered
	Parked          int           // messages that wait behind dead letters, as last counted
	ParkedKeys      int           // keys that are parked, likewise
	BackPressure    bool          // a limit for parked messages or keys is reached: nothing new is claimed
	Destinations    []string      // those that it publishes to, "" for the only one
	Paused          []string      // those of them that have not answered since their last failure
	LastPublishedAt time.Time
	LastError       string
	LastErrorAt     time.Time
}

// Status returns a snapshot. It is safe for concurrent use and asks no server.
func (r *Relay) Status() Status {
	s := Status{Node: r.cfg.Node, Running: r.running.Load(), Destinations: slices.Sorted(maps.Keys(r.dests))}
	r.last.mu.Lock()
	s.LastPublishedAt, s.LastError, s.LastErrorAt = r.last.published, r.last.err, r.last.failed
	r.last.mu.Unlock()
	current := r.latest.Load()
	if current == nil {
		return s
	}
	var core relaycore.Stats
	var paused []string
	live := current.ask(func(c *relaycore.Core) { core, paused = c.Stats(), c.PausedDests() })
	core = current.totals(core)
	s.Published, s.Retried, s.Dead = core.Published, core.Retried, core.Dead
	if live {
		s.Lanes, s.Held, s.Lease = core.Lanes, core.Held, core.LeaseUntil-time.Since(current.began)
		s.Parked, s.ParkedKeys, s.BackPressure = core.Parked, core.ParkedKeys, core.BackPressure
		s.Paused = slices.Sorted(slices.Values(paused))
	}
	return s
}
