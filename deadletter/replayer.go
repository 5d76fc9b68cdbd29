package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// ReplayerConfig configures a [Replayer].
type ReplayerConfig struct {
	// PollInterval is how often the store is asked for started replays. Optional;
	// the default is 2 seconds.
	PollInterval time.Duration

	// RampStep is how long a replay keeps its speed before it takes the next higher one: 1,
	// 2, 5, 10 … letters per second. Optional; the default is 10 seconds.
	RampStep time.Duration

	// Observer receives failures, and replays that stop by themselves. Optional; the
	// default logs to slog.Default.
	Observer observe.Observer
}

const (
	replayTick         = 100 * time.Millisecond // how often letters are requeued; each time at most this share of the rate
	replaysAtATime     = 100
	maxReplayConflicts = 5 // in a row, before they count as a failure
)

// Replayer drives the bulk replays of a store. Any number of them may run on one store: a replay
// still keeps its rate, because each counts what the others have requeued.
type Replayer struct {
	store  ReplayStore
	cfg    ReplayerConfig
	loop   *loop.Loop
	polled time.Time
	paces  map[int64]*pace // of the running replays, by number
}

// NewReplayer returns a replayer over store. The error is an [*waybill.InvalidError] that
// names what is missing or wrong.
func NewReplayer(store ReplayStore, cfg ReplayerConfig) (*Replayer, error) {
	switch {
	case store == nil:
		return nil, invalid("store", "is required")
	case cfg.PollInterval < 0:
		return nil, invalid("deadletter.ReplayerConfig.PollInterval", fmt.Sprintf("is %v, it must not be negative", cfg.PollInterval))
	case cfg.RampStep < 0:
		return nil, invalid("deadletter.ReplayerConfig.RampStep", fmt.Sprintf("is %v, it must not be negative", cfg.RampStep))
	}
	if cfg.PollInterval == 0 {
		cfg.PollInterval = 2 * time.Second
	}
	if cfg.RampStep == 0 {
		cfg.RampStep = 10 * time.Second
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Replayer{store: store, cfg: cfg, loop: &loop.Loop{Name: "replay", Observer: cfg.Observer}}, nil
}

// Run drives all running replays until ctx is done, and returns nil. Failures are reported and
// retried with a backoff. A replay that another process has begun is continued, starting at the
// lowest speed. At most one Run may be active.
func (r *Replayer) Run(ctx context.Context) error {
	r.polled, r.paces = time.Time{}, make(map[int64]*pace)
	r.loop.Run(ctx, r.round)
	return nil
}

// Health returns nil while the store answers and running replays advance, and the reason otherwise.
func (r *Replayer) Health() error { return r.loop.Health(max(3*r.cfg.PollInterval, 10*time.Second)) }

// round requeues what is due of each replay, and sleeps until there may be more.
func (r *Replayer) round(ctx context.Context) error {
	began := time.Now()
	if began.Sub(r.polled) >= r.cfg.PollInterval {
		if err := r.poll(ctx); err != nil {
			return err
		}
	}
	var errs []error
	for _, number := range slices.Sorted(maps.Keys(r.paces)) {
		errs = append(errs, r.advance(ctx, number))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	next := r.polled.Add(r.cfg.PollInterval)
	if tick := began.Add(replayTick); len(r.paces) > 0 && tick.Before(next) {
		next = tick
	}
	loop.Sleep(ctx, time.Until(next))
	return nil
}

// poll adds started replays, and drops those that have ended.
func (r *Replayer) poll(ctx context.Context) error {
	list, err := r.store.Replays(ctx, replaysAtATime)
	if err != nil {
		return fmt.Errorf("look for replays: %w", err)
	}
	r.polled = time.Now()
	paces := make(map[int64]*pace)
	for _, replay := range list {
		if replay.State != Running {
			continue
		}
		if paces[replay.Number] = r.paces[replay.Number]; paces[replay.Number] == nil {
			paces[replay.Number] = newPace(&replay, r.cfg.RampStep, r.polled)
		}
	}
	r.paces = paces
	return nil
}

// advance requeues what is due of one replay. A replay that stops by itself is an error, once.
func (r *Replayer) advance(ctx context.Context, number int64) error {
	p := r.paces[number]
	n := p.due(time.Now())
	if n == 0 {
		return nil
	}
	replay, err := r.store.AdvanceReplay(ctx, number, n)
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		delete(r.paces, number)
		return nil
	case waybill.IsConflict(err) && p.conflicts < maxReplayConflicts:
		p.conflicts++ // with a relay's settlement, say: the next tick tries again
		return nil
	case err != nil:
		return fmt.Errorf("replay %d: %w", number, err)
	}
	p.conflicts = 0
	p.progressed(replay.Requeued)
	if replay.State == Running {
		return nil
	}
	delete(r.paces, number)
	if replay.State == Stopped {
		return fmt.Errorf("replay %d has stopped: %s", number, replay.Problem)
	}
	return nil
}

// pace is the rate limiter of a replay. Credit grows with time, at a speed that rises step by step,
// and shrinks by what is requeued, by whichever process.
type pace struct {
	rate      float64 // letters per second, at most
	step      time.Duration
	taken     time.Time // when this process took the replay
	seen      time.Time // when credit was last added to
	credit    float64   // letters
	requeued  int       // of the replay, by all processes
	conflicts int       // in a row
}

func newPace(replay *Replay, step time.Duration, now time.Time) *pace {
	return &pace{rate: replay.Plan.Complete().Rate, step: step, taken: now, seen: now, credit: 1, requeued: replay.Requeued}
}

// speed returns the letters per second at the given time: 1, 2, 5, 10 … up to the rate.
func (p *pace) speed(now time.Time) float64 {
	steps := min(int(now.Sub(p.taken)/p.step), 30)
	return min([...]float64{1, 2, 5}[steps%3]*math.Pow10(steps/3), p.rate)
}

// due returns how many letters may be requeued now: never more than a tick's worth, so that what
// was missed while a store was slow or unreachable is not made up for.
func (p *pace) due(now time.Time) int {
	speed := p.speed(now)
	most := max(1, speed*replayTick.Seconds())
	p.credit = min(p.credit+speed*now.Sub(p.seen).Seconds(), most+1) // less than one is carried over
	p.seen = now
	return int(max(0, min(p.credit, most)))
}

func (p *pace) progressed(requeued int) {
	p.credit -= float64(requeued - p.requeued)
	p.requeued = requeued
}
