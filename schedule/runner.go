package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// RunnerConfig configures a [Runner].
type RunnerConfig struct {
	// PollInterval is the runner's longest sleep; it wakes up earlier when a schedule that it knows of
	// is due. So the first occurrence of a schedule that was put elsewhere may be late by up to this.
	// Optional; the default is 2 seconds.
	PollInterval time.Duration

	// BatchSize is how many schedules are read at once. Optional; the default is 100.
	BatchSize int

	// Observer receives enqueued and skipped occurrences, and failures. Optional;
	// the default logs to slog.Default.
	Observer observe.Observer
}

// Runner enqueues the occurrences of recurring schedules when they are due. Any number of them
// may run on one store: each occurrence is enqueued once.
type Runner struct {
	source Source
	cfg    RunnerConfig
	loop   *loop.Loop
}

// NewRunner returns a runner over source. The error is an [*waybill.InvalidError] that names
// what is missing or wrong.
func NewRunner(source Source, cfg RunnerConfig) (*Runner, error) {
	switch {
	case source == nil:
		return nil, invalid("source", "is required")
	case cfg.PollInterval < 0:
		return nil, invalid("schedule.RunnerConfig.PollInterval", "is negative")
	case cfg.BatchSize < 0:
		return nil, invalid("schedule.RunnerConfig.BatchSize", "is negative")
	}
	if cfg.PollInterval == 0 {
		cfg.PollInterval = 2 * time.Second
	}
	if cfg.BatchSize == 0 {
		cfg.BatchSize = 100
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Runner{source: source, cfg: cfg, loop: &loop.Loop{Name: "schedule", Observer: cfg.Observer}}, nil
}

// Run enqueues what is due until ctx is done, and returns nil. Failures are reported and retried
// with a backoff; one schedule that fails does not block the others. At most one Run may be active.
func (r *Runner) Run(ctx context.Context) error {
	r.loop.Run(ctx, func(ctx context.Context) error {
		wait, err := r.round(ctx)
		if err == nil {
			loop.Sleep(ctx, wait)
		}
		return err
	})
	return nil
}

// RunOnce enqueues everything that is due now and returns, for programs with their own loop.
func (r *Runner) RunOnce(ctx context.Context) error {
	for {
		if wait, err := r.round(ctx); err != nil || wait > 0 {
			return err
		}
	}
}

// Health returns nil while the store answers and schedules advance, and the reason otherwise.
func (r *Runner) Health() error { return r.loop.Health(max(3*r.cfg.PollInterval, 10*time.Second)) }

// round enqueues one occurrence of each schedule that is due, and returns how long to wait for the
// next round.
func (r *Runner) round(ctx context.Context) (wait time.Duration, err error) {
	var after *State
	var errs []error
	again := false // whether something was enqueued, after which more of the same may be due
	for {
		due, err := r.source.DueSchedules(ctx, after, r.cfg.BatchSize)
		if err != nil {
			return 0, fmt.Errorf("look for schedules that are due: %w", err)
		}
		for i := range due.List {
			changed, err := r.fire(ctx, &due.List[i], due.Now)
			again = again || changed
			errs = append(errs, err)
		}
		if n := len(due.List); n == r.cfg.BatchSize {
			after = &due.List[n-1].State
			continue
		}
		if again {
			return 0, errors.Join(errs...)
		}
		return r.pause(&due), errors.Join(errs...)
	}
}

// pause returns how long to sleep.
func (r *Runner) pause(due *Due) time.Duration {
	if due.Next.IsZero() {
		return r.cfg.PollInterval
	}
	return min(due.Next.Sub(due.Now), r.cfg.PollInterval)
}

// fire advances a schedule and enqueues its message, if any, and reports whether it did.
func (r *Runner) fire(ctx context.Context, due *DueState, now time.Time) (bool, error) {
	if due.Malformed != nil {
		return false, fmt.Errorf("schedule %s: %w", due.Name, due.Malformed)
	}
	st, err := advance(due.State, now, due.Busy)
	if err != nil {
		return false, fmt.Errorf("schedule %s: %w", due.Name, err)
	}
	if !st.changed {
		return false, nil
	}
	end := func(error) {}
	if st.message != nil {
		ctx, end = r.cfg.Observer.Start(ctx, observe.OpEnqueue, st.message)
	}
	done, err := r.source.FireSchedule(ctx, st.state, st.message)
	end(err)
	switch {
	case waybill.IsConflict(err):
		return false, nil // another transaction has the schedule or the message's id: a later round looks again
	case err != nil:
		return false, fmt.Errorf("schedule %s: %w", due.Name, err)
	case done:
		r.tell(ctx, &st, now)
	}
	return done, nil
}

// tell reports what a step has done.
func (r *Runner) tell(ctx context.Context, st *step, now time.Time) {
	e := observe.Event{Name: st.state.Name, Topic: st.state.Message.Address(), Type: st.state.Message.Type}
	if st.skipped > 0 {
		skip := e
		skip.Op, skip.Count = observe.OpSkip, st.skipped
		r.cfg.Observer.Observe(ctx, skip)
	}
	if st.message != nil {
		e.Op, e.Count, e.IDs, e.Delay = observe.OpFire, 1, []string{st.message.ID}, now.Sub(st.state.LastAt)
		r.cfg.Observer.Observe(ctx, e)
	}
}
