package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

func scheduleScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"a scheduled message is moved while it is released", scheduled[Tx], []session[Tx]{releases[Tx], moves[Tx]}, wantInOnePlace[Tx]},
		{"a scheduled message is moved and cancelled", scheduled[Tx], []session[Tx]{moves[Tx], cancels[Tx]}, wantCancelledOrKept[Tx]},
		{"a message is scheduled twice", nil, []session[Tx]{schedules[Tx], schedules[Tx]}, wantInOnePlace[Tx]},
		{"a schedule is fired by two", recurring[Tx], []session[Tx]{fires[Tx], fires[Tx]}, wantFired[Tx]},
		{"a schedule is paused while it is fired", recurring[Tx], []session[Tx]{fires[Tx], pauses[Tx]}, wantFired[Tx]},
		{"a saga gets two messages", running[Tx], []session[Tx]{reacts[Tx]("a", true), reacts[Tx]("b", true)}, wantSaga[Tx](2)},
		{"a saga gets two messages and is not locked", running[Tx], []session[Tx]{reacts[Tx]("a", false), reacts[Tx]("b", false)}, wantSaga[Tx](1)},
		{"a saga is started by two messages", ready[Tx](), []session[Tx]{reacts[Tx]("a", true), reacts[Tx]("b", true)}, wantSaga[Tx](1)},
	}
}

// moves gives the scheduled message another time.
func moves[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	var done bool
	err := p.inTx(ctx, func(tx Tx) (err error) {
		done, err = p.MoveScheduled(ctx, tx, "a", time.Now().Add(1000*time.Hour))
		return conflicts(err)
	})
	if err == nil {
		p.say("moved %v", done)
	}
	return err
}

// wantInOnePlace expects the message a once: scheduled, or pending.
func wantInOnePlace[Tx any](ctx context.Context, e *env[Tx]) error {
	places, err := e.places(ctx, "a")
	if err == nil && !slices.Equal(places, []inspect.Status{inspect.Scheduled}) && !slices.Equal(places, []inspect.Status{inspect.Pending}) {
		err = fmt.Errorf("message a is %v", places)
	}
	return err
}

func wantCancelledOrKept[Tx any](ctx context.Context, e *env[Tx]) error {
	places, err := e.places(ctx, "a")
	cancelled := len(e.said("cancelled true"))
	if err == nil && len(places)+cancelled != 1 {
		err = fmt.Errorf("message a is %v; cancelled: %d times", places, cancelled)
	}
	return err
}

func schedules[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	m := msg("a", "k")
	m.DeliverAt = time.Now().Add(time.Hour)
	var isNew bool
	err := p.inTx(ctx, func(tx Tx) (err error) {
		isNew, err = p.AddScheduled(ctx, tx, &m)
		return conflicts(err)
	})
	if err == nil {
		p.say("new %v", isNew)
	}
	return err
}

const sweep = "sweep"

func (p *party[Tx]) scheduler() (*schedule.Scheduler[Tx], error) {
	return schedule.NewScheduler[Tx](p.store, schedule.Config{Source: "shop", Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
}

// recurring has a schedule that is due.
func recurring[Tx any](ctx context.Context, e *env[Tx]) error {
	s, err := e.admin.scheduler()
	if err != nil {
		return err
	}
	if err := e.admin.inTx(ctx, func(tx Tx) error {
		return s.Put(ctx, tx, schedule.Recurring{
			Name: sweep, Every: time.Hour, Start: time.Now().UTC().Truncate(time.Second).Add(time.Hour), MaxExecutions: 1, CatchUp: 1000 * time.Hour,
			Message: waybill.Message{Topic: "orders", Type: "orders.sweep", Payload: []byte(`{}`)},
		})
	}); err != nil {
		return err
	}
	return e.advance(ctx, 90*time.Minute)
}

func fires[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	r, err := schedule.NewRunner(p.store, schedule.RunnerConfig{})
	if err != nil {
		return err
	}
	return r.RunOnce(ctx)
}

func pauses[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	s, err := p.scheduler()
	if err != nil {
		return err
	}
	var done bool
	err = p.inTx(ctx, func(tx Tx) (err error) {
		done, err = s.Pause(ctx, tx, sweep)
		return conflicts(err)
	})
	if err == nil {
		p.say("paused %v", done)
	}
	return err
}

// wantFired expects that the only occurrence was enqueued once, unless the schedule was paused before.
func wantFired[Tx any](ctx context.Context, e *env[Tx]) error {
	var s schedule.State
	if err := e.admin.inTx(ctx, func(tx Tx) (err error) {
		s, err = e.admin.ReadSchedule(ctx, tx, sweep)
		return err
	}); err != nil {
		return err
	}
	paused := len(e.said("paused true")) > 0
	if paused != s.Paused || !paused && s.Executions != 1 && !e.parties[0].clashed() {
		return fmt.Errorf("paused: %v, executions: %d", s.Paused, s.Executions)
	}
	if s.Executions == 0 {
		return nil
	}
	return e.wantPlaces(ctx, s.LastID, inspect.Pending)
}

var order = saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: "o1"}

// running has a saga that was started.
func running[Tx any](ctx context.Context, e *env[Tx]) error {
	if err := ready[Tx]()(ctx, e); err != nil {
		return err
	}
	return e.admin.inTx(ctx, func(tx Tx) error {
		in := saga.Instance{ID: order, Definition: 1, Status: saga.Running}
		_, err := e.admin.WriteSaga(ctx, tx, &in, saga.Entry{Status: saga.Running})
		return err
	})
}

// reacts moves the saga on, or starts it, and sends a message.
func reacts[Tx any](id string, lock bool) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		err := p.inTx(ctx, func(tx Tx) error {
			in, err := p.ReadSaga(ctx, tx, order, lock)
			if errors.Is(err, waybill.ErrNotFound) {
				in, err = saga.Instance{ID: order, Definition: 1, Status: saga.Running}, nil
			}
			if err != nil {
				return conflicts(err)
			}
			in.State += id
			written, err := p.WriteSaga(ctx, tx, &in, saga.Entry{Status: saga.Running, MessageID: id})
			if err != nil {
				return conflicts(err)
			}
			if !written {
				return errGivesUp
			}
			_, err = p.enqueue(ctx, tx, msg(id, "k"))
			return conflicts(err)
		})
		switch {
		case errors.Is(err, errGivesUp):
			p.say("too late")
			return nil
		case err == nil:
			p.say("moved")
			p.committed = []string{id}
		}
		return err
	}
}

// wantSaga expects that the saga has gone through what the sessions have committed, a least number of them unless they
// clashed, and that their messages are sent.
func wantSaga[Tx any](least int) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		var in saga.Instance
		if err := e.admin.inTx(ctx, func(tx Tx) (err error) {
			in, err = e.admin.ReadSaga(ctx, tx, order, false)
			return err
		}); err != nil {
			return err
		}
		var done []string
		clashes := 0
		for _, p := range e.parties[:e.active] {
			done = append(done, p.committed...)
			if p.clashed() {
				clashes++
			}
		}
		states := slices.Sorted(slices.Values(strings.Split(in.State, "")))
		if !slices.Equal(states, done) || len(done) < max(1, least-clashes) {
			return fmt.Errorf("the saga is %q, committed were %v", in.State, done)
		}
		return wantDrained[Tx]()(ctx, e)
	}
}
