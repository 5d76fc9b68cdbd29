package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// Relay moves messages from one source to one or several destinations.
type Relay struct {
	src     Source
	cfg     Config
	policy  policy
	main    []*outlet          // those that messages are routed to
	outlets map[string]*outlet // by name, the followers too
	// undivided are the names of main, if every message goes to each of them; else nil.
	undivided []string

	lanes     *laneSet
	backlog   *backlog
	unsettled []Settlement // guarded by the backlog's mutex, as is stopping
	stopping  bool
	refused   refusedSettlements
	releasing tries
	batches   sync.WaitGroup
	readAhead int // messages

	due      *dueTimes
	news     bell // a reason to look for messages again
	room     bell // there may be room for another claim
	settling bell // there are outcomes to write down
	alarm    alarm

	work     context.Context // of what outlives the context of Run by the grace period
	running  atomic.Bool
	claiming *loop.Loop
	renewing *loop.Loop
	settler  *loop.Loop
	claims   tries
	settles  tries
	aside    aside
	name     nameWatch
	totals   totals
	parked   parkedWatch

	// used by the claim loop only
	nextLook  time.Time
	nextAgain time.Time // when every lane is read from its beginning
	fullSince time.Time // there is no room for a claim; zero if there is
	busy      bool      // the latest claim was full
	weight    int       // of a message, about
	pacing    pacing
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
	r := &Relay{
		src:       newBounded(src, &cfg),
		cfg:       cfg,
		outlets:   make(map[string]*outlet),
		lanes:     newLaneSet(),
		backlog:   newBacklog(),
		readAhead: max(cfg.BatchSize, min(heldBatches*cfg.BatchSize, maxHeld)),
		due:       newDueTimes(),
		news:      newBell(),
		room:      newBell(),
		settling:  newBell(),
		weight:    maxHeldBytes / cfg.BatchSize,
	}
	r.alarm.call = r.dispatch
	r.name.inspector, _ = src.(Inspector)
	r.claiming = &loop.Loop{Name: "relay " + cfg.Node + " claim", Kind: "relay claim", Observer: cfg.Observer}
	r.renewing = &loop.Loop{Name: "relay " + cfg.Node + " lease", Kind: "relay lease", Observer: cfg.Observer}
	r.settler = &loop.Loop{Name: "relay " + cfg.Node + " settle", Kind: "relay settle", Observer: cfg.Observer}
	if err := r.addOutlets(destinations); err != nil {
		return nil, err
	}
	r.policy = policy{retry: cfg.Retry, failed: cfg.DisableDeadLetters, order: r.cfg.orderOf, follows: r.matches}
	for _, f := range cfg.Followers {
		r.policy.followers = append(r.policy.followers, f.Name)
	}
	return r, nil
}

func (r *Relay) addOutlets(destinations []Destination) error {
	if len(destinations) == 0 {
		return &waybill.InvalidError{Field: "destinations", Reason: "at least one is required"}
	}
	for _, d := range slices.Concat(destinations, r.cfg.Followers) {
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
		r.outlets[d.Name] = newOutlet(d, r.cfg.PublishTimeout)
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

func (r *Relay) matches(name string, m *waybill.Message) bool {
	yes, _ := r.outlets[name].matches(m)
	return yes
}

// Run moves messages until ctx is done. It then stops claiming, lets batches that are under
// way finish for at most ShutdownGrace, gives its lanes back and returns nil: a shutdown
// counts no attempt. Errors of the source and of destinations are observed, waited out and
// survived. A relay runs once at a time; a second Run returns an error.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("relay: is running already")
	}
	defer r.running.Store(false)

	// What is under way outlives ctx by the grace period.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.work, r.stopping = work, false
	r.claims.end(nil)
	r.settles.end(nil)
	r.aside = aside{}
	r.name.due, r.name.expires = time.Time{}, time.Time{}
	r.name.taken.Store(false)
	var background sync.WaitGroup
	background.Go(func() { r.renewing.Run(work, r.renewRound) })
	background.Go(func() { r.settler.Run(work, r.settleRound) })
	background.Go(func() { r.maintainArchive(ctx) })
	r.claiming.Run(ctx, r.claimRound)

	r.drain()
	stop()
	r.batches.Wait()
	background.Wait()
	r.letGo()
	return r.leave(context.WithoutCancel(ctx))
}

// drain lets go of what is not under way and waits, for at most the grace period, until the
// rest is published and written down.
func (r *Relay) drain() {
	r.backlog.mu.Lock()
	r.stopping = true
	r.backlog.mu.Unlock()
	r.alarm.stop()
	grace, cancel := context.WithTimeout(context.Background(), r.cfg.ShutdownGrace)
	defer cancel()
	for grace.Err() == nil {
		r.backlog.drop(func(Lane) bool { return true })
		if count, _ := r.backlog.size(); count <= r.refused.count() {
			return
		}
		r.room.wait(grace)
	}
}

// letGo forgets everything claimed: it is still in the store.
func (r *Relay) letGo() {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.backlog.reset()
	r.unsettled = nil
	r.refused.reset()
	for _, o := range r.outlets {
		o.reset()
	}
}

// leave gives the lanes back. Failing to is no failure of Run: the lease ends by itself.
func (r *Relay) leave(ctx context.Context) error {
	if err := r.src.LeaveLanes(ctx, r.cfg.Node); err != nil {
		r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Loop: "relay leave", Err: fmt.Errorf("give lanes back: %w", err)})
	}
	r.lanes.reset()
	return nil
}

func (r *Relay) observe(ctx context.Context, e waybill.Event) {
	if e.Name == "" {
		e.Name = r.cfg.Node
	}
	r.cfg.Observer.Observe(ctx, e)
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

// totals are the running figures of Status.
type totals struct {
	mu sync.Mutex
	Status
}

func (t *totals) add(f func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.Status)
}

// Status returns a snapshot. It is safe for concurrent use and asks nobody.
func (r *Relay) Status() Status {
	var s Status
	r.totals.add(func(now *Status) { s = *now })
	s.Node, s.Running = r.cfg.Node, r.running.Load()
	s.Lanes, _ = r.lanes.count()
	s.Held, _ = r.backlog.size()
	s.Lease = r.lanes.remaining()
	s.Destinations, s.Paused = r.destinations()
	return s
}

// destinations returns the names of all destinations, and of those that are paused.
func (r *Relay) destinations() (all, paused []string) {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.outlets)) {
		all = append(all, name)
		if r.outlets[name].main.probing() {
			paused = append(paused, name)
		}
	}
	return all, paused
}

// Health returns nil while the relay does its work, and why not if its last successful
// look for messages, or renewal of its lease, is too old (three intervals, or the lease), if
// settlements have failed for as long as a lease holds, or if the store has refused to settle a
// message, or to release what is due, for more than a minute: a [*waybill.StalledError] for each,
// joined. Another relay of the same name is an error, too.
// A destination that does not answer is not the relay's illness; Status tells of it. But where
// there are other relays, one of whose destinations none has answered for three times LeaseTTL lets
// its lease run out from time to time, so that they take its lanes, and is not well.
func (r *Relay) Health() error {
	claiming := r.claiming.Health(max(3*r.cfg.PollInterval, r.cfg.LeaseTTL))
	if claiming == nil {
		claiming = r.stuck() // aside it claims nothing, which is no success
	}
	return errors.Join(
		claiming,
		r.renewing.Health(r.cfg.LeaseTTL),
		r.settles.stalled(r.settler.Name, r.cfg.callTimeout()),
		r.refused.health(),
		r.releasing.stalled("relay release", failingHealthy),
		r.nameTaken(),
	)
}
