package relay

import (
	"context"
	"errors"
	"fmt"
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

	lanes    *laneSet
	due      *dueTimes
	wakeups  <-chan struct{}
	pokes    chan struct{} // a reason to look for messages again
	slots    chan struct{} // one for each batch under way
	batches  sync.WaitGroup
	running  atomic.Bool
	claiming *loop.Loop
	renewing *loop.Loop
	totals   totals

	nextSchedule time.Time // used by the claim loop only
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
		src:     src,
		cfg:     cfg,
		outlets: make(map[string]*outlet),
		lanes:   newLaneSet(),
		due:     newDueTimes(),
		wakeups: src.Wakeups(),
		pokes:   make(chan struct{}, 1),
		slots:   make(chan struct{}, cfg.Parallelism),
	}
	r.claiming = &loop.Loop{Name: "relay " + cfg.Node + " claim", Observer: cfg.Observer}
	r.renewing = &loop.Loop{Name: "relay " + cfg.Node + " lease", Observer: cfg.Observer}
	if err := r.addOutlets(destinations); err != nil {
		return nil, err
	}
	r.policy = policy{retry: cfg.Retry, failed: cfg.DisableDeadLetters, follows: r.matches}
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
		if len(d.Name) > waybill.MaxTopicLen {
			return &waybill.InvalidError{Field: "Destination.Name", Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(d.Name), waybill.MaxTopicLen)}
		}
		r.outlets[d.Name] = newOutlet(d, r.cfg.PublishTimeout)
	}
	for _, d := range destinations {
		r.main = append(r.main, r.outlets[d.Name])
	}
	if len(r.outlets) > 1 && r.outlets[""] != nil && len(r.main) > 1 {
		return &waybill.InvalidError{Field: "Destination.Name", Reason: "is empty; each of several destinations needs a name"}
	}
	return nil
}

func (r *Relay) matches(name string, m *waybill.Message) bool {
	o := r.outlets[name]
	return o.Match == nil || o.Match(m)
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
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		r.renewing.Run(work, r.renewRound)
	}()
	maintaining := make(chan struct{})
	go func() {
		defer close(maintaining)
		r.maintainArchive(ctx)
	}()
	r.claiming.Run(ctx, func(ctx context.Context) error { return r.claimRound(ctx, work) })

	r.drain(stop)
	<-renewing
	<-maintaining
	return r.leave(context.WithoutCancel(ctx))
}

// drain waits for batches under way and then, or after the grace period, ends their context.
func (r *Relay) drain(stop func()) {
	done := make(chan struct{})
	go func() {
		r.batches.Wait()
		close(done)
	}()
	t := time.NewTimer(r.cfg.ShutdownGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	stop()
	<-done
}

// leave gives the lanes back. Failing to is no failure of Run: the lease ends by itself.
func (r *Relay) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.PublishTimeout)
	defer cancel()
	if err := r.src.LeaveLanes(ctx, r.cfg.Node); err != nil {
		r.observe(ctx, waybill.Event{Op: waybill.OpLoop, Err: fmt.Errorf("give lanes back: %w", err)})
	}
	r.lanes.reset()
	return nil
}

const archiveInterval = time.Hour

// maintainArchive keeps the archive within its retention, with room for the next days.
func (r *Relay) maintainArchive(ctx context.Context) {
	retention := r.cfg.Retention
	if retention == KeepNothing { // what an earlier setting has kept goes in its time
		retention = defaultRetention
	}
	l := &loop.Loop{Name: "relay " + r.cfg.Node + " archive", Observer: r.cfg.Observer}
	l.Run(ctx, func(ctx context.Context) error {
		if err := r.src.MaintainArchive(ctx, retention); err != nil {
			return err
		}
		loop.Sleep(ctx, archiveInterval)
		return nil
	})
}

// poke makes the claim loop look for messages again.
func (r *Relay) poke() {
	select {
	case r.pokes <- struct{}{}:
	default:
	}
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
	Published       int64         // messages accepted by destinations since the relay was made
	Retried         int64         // failures that will be tried again
	Dead            int64         // messages given up
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
	s.Lease = r.lanes.remaining()
	return s
}

// Health returns nil while the relay does its work, and why not if its last successful
// look for messages, or renewal of its lease, is too old (three intervals, or the lease).
// A destination that does not answer is not the relay's illness; Status tells of it.
func (r *Relay) Health() error {
	return errors.Join(
		r.claiming.Health(max(3*r.cfg.PollInterval, r.cfg.LeaseTTL)),
		r.renewing.Health(r.cfg.LeaseTTL),
	)
}
