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
	"github.com/waybill-go/waybill/internal/recording"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// Relay moves messages from one source to one or several destinations. What it does is decided by its
// core, package relaycore; the rest of the relay carries that out.
type Relay struct {
	src     Source
	ahead   AheadSource // src, nil if it is none
	cfg     Config
	main    []*outlet          // those that messages are routed to
	outlets map[string]*outlet // by name, the followers too
	// undivided are the names of main, if every message goes to each of them; else nil.
	undivided []string
	name      nameWatch
	last      last

	running atomic.Bool
	workers sync.WaitGroup
	reading context.Context // of Run: of what ends at once when the relay stops
	work    context.Context // of what outlives it by the grace period

	mu       sync.Mutex // guards what follows
	core     *relaycore.Core
	began    time.Time
	timer    *time.Timer
	closed   bool // no event is handled any more
	isDone   bool
	done     chan struct{} // closed when everything is settled after the stop
	endAwait context.CancelFunc
	cuts     map[*relaycore.Batch]context.CancelFunc
	recorder *recording.Writer // nil if the run is not recorded
	earlier  relaycore.Stats   // of earlier runs
}

// last is what Status tells of last.
type last struct {
	mu        sync.Mutex
	published time.Time
	failed    time.Time
	err       string
}

// New returns a relay that publishes every message of src to pub. The error is an
// [*waybill.InvalidError] that names what is missing or wrong.
func New(src Source, pub Publisher, cfg Config) (*Relay, error) {
	if pub == nil {
		return nil, &waybill.InvalidError{Field: "pub", Reason: "a publisher is required"}
	}
	return NewFanout(src, []Destination{{Publisher: pub}}, cfg)
}

// NewFanout returns a relay that publishes each message of src to every destination that
// matches it, each with attempts of its own. A message that matches none is unroutable.
func NewFanout(src Source, destinations []Destination, cfg Config) (*Relay, error) {
	if src == nil {
		return nil, &waybill.InvalidError{Field: "src", Reason: "a source is required"}
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	bounded := newBounded(src, &cfg)
	r := &Relay{src: bounded, cfg: cfg, outlets: make(map[string]*outlet)}
	if bounded.ahead != nil {
		r.ahead = bounded
	}
	r.name.inspector, _ = src.(Inspector)
	if err := r.addOutlets(destinations); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Relay) addOutlets(destinations []Destination) error {
	if len(destinations) == 0 {
		return &waybill.InvalidError{Field: "destinations", Reason: "at least one is required"}
	}
	for i, d := range slices.Concat(destinations, r.cfg.Followers) {
		if d.Publisher == nil {
			return &waybill.InvalidError{Field: "Destination.Publisher", Reason: fmt.Sprintf("destination %q has none", d.Name)}
		}
		if r.outlets[d.Name] != nil {
			return &waybill.InvalidError{Field: "Destination.Name", Reason: fmt.Sprintf("%q is used twice", d.Name)}
		}
		if !(d.Rate >= 0 && d.Rate <= maxRate) {
			return &waybill.InvalidError{Field: "Destination.Rate", Reason: fmt.Sprintf("is %v, the range is 0 to %d messages per second", d.Rate, int(maxRate))}
		}
		if len(d.Name) > waybill.MaxTopicLen {
			return &waybill.InvalidError{Field: "Destination.Name", Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(d.Name), waybill.MaxTopicLen)}
		}
		r.outlets[d.Name] = &outlet{Destination: d, follower: i >= len(destinations), late: confirmsLate(d.Publisher)}
	}
	divided := false
	for _, d := range destinations {
		r.main = append(r.main, r.outlets[d.Name])
		r.undivided = append(r.undivided, d.Name)
		divided = divided || d.Match != nil
	}
	if divided {
		r.undivided = nil
	}
	if len(r.outlets) > 1 && r.outlets[""] != nil && len(r.main) > 1 {
		return &waybill.InvalidError{Field: "Destination.Name", Reason: "is empty; each of several destinations needs a name"}
	}
	return nil
}

// Run moves messages until ctx is done. It then stops claiming, lets batches that are in
// flight finish for at most ShutdownGrace, gives its lanes back and returns nil: a shutdown
// counts no attempt. Errors of the source and of destinations are observed, waited out and
// survived. A relay runs once at a time; a second Run returns an error.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("relay: is running already")
	}
	defer r.running.Store(false)

	// What is in flight outlives ctx by the grace period.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.begin(ctx, work)
	defer r.timer.Stop()
	r.handle(relaycore.Tick{})
	var archive sync.WaitGroup
	archive.Go(func() { r.maintainArchive(ctx) })
	<-ctx.Done()

	r.handle(relaycore.Stop{})
	grace := time.NewTimer(r.cfg.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-r.done:
	case <-grace.C:
	}
	r.close()
	stop()
	r.workers.Wait()
	archive.Wait()
	return r.leave(context.WithoutCancel(ctx))
}

// begin makes a new core: a relay that begins knows nothing.
func (r *Relay) begin(reading, work context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.work = reading, work
	r.name.due, r.name.expires = time.Time{}, time.Time{}
	r.name.taken.Store(false)
	r.core, r.began = relaycore.New(r.coreConfig()), time.Now()
	r.closed, r.isDone, r.done = false, false, make(chan struct{})
	r.cuts = make(map[*relaycore.Batch]context.CancelFunc)
	for _, o := range r.outlets {
		o.sent = nil
	}
	r.timer = time.AfterFunc(time.Hour, func() { r.handle(relaycore.Tick{}) })
	r.beginRecording()
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
		core.Followers = append(core.Followers, relaycore.Dest{Name: f.Name, Rate: f.Rate, Late: r.outlets[f.Name].late})
	}
	return core
}

// close ends the handling of events. What is claimed is still in the store.
func (r *Relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.endRecording()
	now := r.core.Stats()
	r.earlier.Published += now.Published
	r.earlier.Retried += now.Retried
	r.earlier.Dead += now.Dead
}

// leave gives the lanes back. Failing to is no failure of Run: the lease ends by itself.
func (r *Relay) leave(ctx context.Context) error {
	if err := r.src.LeaveLanes(ctx, r.cfg.Node); err != nil {
		r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Loop: "relay leave", Err: fmt.Errorf("give lanes back: %w", err)})
	}
	return nil
}

// Status is a snapshot of a relay.
type Status struct {
	Node            string
	Running         bool
	Lanes           int           // owned now
	Lease           time.Duration // what is left of it; negative if it has expired
	Held            int           // messages claimed and not yet settled
	Published       int64         // messages accepted by destinations since the relay was made
	Retried         int64         // failures that will be tried again
	Dead            int64         // messages given up
	Parked          int           // messages that wait behind dead letters, as counted last
	ParkedKeys      int           // keys that are parked, likewise
	BackPressure    bool          // a limit of what is parked is reached: nothing new is claimed
	Destinations    []string      // those that it publishes to, "" for the only one
	Paused          []string      // those of them that have not answered since their last failure
	LastPublishedAt time.Time
	LastError       string
	LastErrorAt     time.Time
}

// Status returns a snapshot. It is safe for concurrent use and asks nobody.
func (r *Relay) Status() Status {
	s := Status{Node: r.cfg.Node, Running: r.running.Load(), Destinations: slices.Sorted(maps.Keys(r.outlets))}
	r.last.mu.Lock()
	s.LastPublishedAt, s.LastError, s.LastErrorAt = r.last.published, r.last.err, r.last.failed
	r.last.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.earlier
	if r.core != nil && !r.closed {
		core := r.core.Stats()
		now.Published, now.Retried, now.Dead = now.Published+core.Published, now.Retried+core.Retried, now.Dead+core.Dead
		s.Lanes, s.Held, s.Lease = core.Lanes, core.Held, core.LeaseUntil-time.Since(r.began)
		s.Parked, s.ParkedKeys, s.BackPressure = core.Parked, core.ParkedKeys, core.BackPressure
		s.Paused = slices.Sorted(slices.Values(r.core.PausedDests()))
	}
	s.Published, s.Retried, s.Dead = now.Published, now.Retried, now.Dead
	return s
}
