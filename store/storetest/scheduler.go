package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
)

func schedulerTests[Tx any]() []test[Tx] {
	needs := []need{schedules}
	return []test[Tx]{
		{"at a time, under its id", scheduledAt[Tx], needs},
		{"after a delay", scheduledAfter[Tx], needs},
		{"rolled back", scheduledRolledBack[Tx], needs},
		{"in the past", scheduledPast[Tx], needs},
		{"found with all its fields", scheduledFields[Tx], needs},
		{"cancelled", scheduledCancelled[Tx], needs},
		{"cancelled too late", scheduledTooLate[Tx], needs},
		{"cancelled while it is released", scheduledRace[Tx], needs},
		{"moved", scheduledMoved[Tx], needs},
		{"under an id that is scheduled", scheduledTwice[Tx], needs},
		{"under an id that is pending when it is due", scheduledTaken[Tx], needs},
	}
}

// scheduler returns a scheduler over the test's store.
func (e *env[Tx]) scheduler() *schedule.Scheduler[Tx] {
	e.Helper()
	s, err := schedule.NewScheduler(e.s.(schedule.Store[Tx]), schedule.Config{Source: "shop"})
	e.must(err, "NewScheduler")
	return s
}

func (e *env[Tx]) source() schedule.Source { return e.s.(schedule.Source) }

func (e *env[Tx]) schedules() schedule.OperatorStore { return e.s.(schedule.OperatorStore) }

// tx runs fn in a transaction of the test's and commits.
func (e *env[Tx]) tx(fn func(tx Tx) error) {
	e.Helper()
	tx := e.begin()
	if err := fn(tx); err != nil {
		e.rollback(tx)
		e.Fatal(err)
	}
	e.commit(tx)
}

// ask runs a change of a scheduler in a transaction and returns its answer.
func (e *env[Tx]) ask(fn func(tx Tx) (bool, error)) (answer bool) {
	e.Helper()
	e.tx(func(tx Tx) (err error) {
		answer, err = fn(tx)
		return err
	})
	return answer
}

// later schedules a message after a delay.
func (e *env[Tx]) later(id string, delay time.Duration) {
	e.Helper()
	e.tx(func(tx Tx) error {
		_, err := e.scheduler().After(e.ctx, tx, msg(id, "k"), delay)
		return err
	})
}

func (e *env[Tx]) cancelled(id string) bool {
	e.Helper()
	return e.ask(func(tx Tx) (bool, error) { return e.scheduler().Cancel(e.ctx, tx, id) })
}

func (e *env[Tx]) moved(id string, at time.Time) bool {
	e.Helper()
	return e.ask(func(tx Tx) (bool, error) { return e.scheduler().Reschedule(e.ctx, tx, id, at) })
}

func scheduledAt[Tx any](e *env[Tx]) {
	n := e.join("r1")
	at := time.Now().Add(time.Hour)
	e.tx(func(tx Tx) error {
		id, err := e.scheduler().At(e.ctx, tx, msg("a", "k"), at)
		if id != "a" {
			e.Errorf("At() = %q, want the message's id", id)
		}
		return err
	})
	n.claimOnly()
	e.release(0)
	state := e.want(inspect.Scheduled, "a")
	if state.DueAt == nil || !state.DueAt.Equal(at.Round(time.Microsecond)) {
		e.Errorf("DueAt = %v, want %v", state.DueAt, at)
	}
	e.advance(2 * time.Hour)
	e.release(1)
	c := n.claimOne("a")
	if c.DelayFor != 0 || c.Message.Key != "k" || string(c.Message.Payload) != `{"id":"a"}` {
		e.Errorf("claim = %+v, want the message, to be published now", c)
	}
	n.settle(published(c)...)
}

func scheduledAfter[Tx any](e *env[Tx]) {
	e.advance(72 * time.Hour) // the delay is one of the store's clock
	e.later("a", time.Hour)
	e.advance(59 * time.Minute)
	e.release(0)
	e.advance(2 * time.Minute)
	e.release(1)
	e.want(inspect.Pending, "a")
}

func scheduledRolledBack[Tx any](e *env[Tx]) {
	tx := e.begin()
	_, err := e.scheduler().After(e.ctx, tx, msg("a", "k"), time.Hour)
	e.must(err, "After")
	e.rollback(tx)
	e.wantNowhere("a")
	e.later("b", time.Hour)
	tx = e.begin()
	if ok, err := e.scheduler().Cancel(e.ctx, tx, "b"); !ok || err != nil {
		e.Errorf("Cancel() = %v, %v, want true", ok, err)
	}
	e.rollback(tx)
	e.want(inspect.Scheduled, "b")
}

func scheduledPast[Tx any](e *env[Tx]) {
	e.advance(time.Hour)
	s := e.scheduler()
	tx := e.begin()
	defer e.rollback(tx)
	for name, schedule := range map[string]func() error{
		"at": func() error {
			_, err := s.At(e.ctx, tx, msg("a", ""), time.Now().Add(time.Minute)) // past by the store's clock
			return err
		},
		"delay":     func() error { _, err := s.After(e.ctx, tx, msg("a", ""), 0); return err },
		"DeliverAt": func() error { return e.withDeliverAt(tx) },
	} {
		var invalid *waybill.InvalidError
		if err := schedule(); !errors.As(err, &invalid) || invalid.Field != name {
			e.Errorf("error = %v, want one that names %s", err, name)
		}
	}
	e.must(e.h.Effect(e.ctx, e.s, tx, "still usable"), "Effect")
}

func (e *env[Tx]) withDeliverAt(tx Tx) error {
	m := msg("a", "")
	m.DeliverAt = time.Now().Add(time.Hour)
	_, err := e.scheduler().After(e.ctx, tx, m, time.Hour)
	return err
}

func scheduledFields[Tx any](e *env[Tx]) {
	m := waybill.Message{
		ID: "a", Type: "order.due@v2", Source: "shop", To: "billing", Key: "k", Subject: "order/1", Tenant: "acme",
		Payload: []byte{0, 1, 255}, ContentType: "application/octet-stream", DataSchema: "https://example.com/schema",
		Headers: map[string]string{"x-user": "eve"}, CorrelationID: "c", CausationID: "b", IdempotencyKey: "i",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "a=b",
		Time: time.Date(2026, 3, 1, 12, 0, 0, 123000, time.UTC), ExpiresAt: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	at := time.Now().Add(time.Hour).Round(time.Microsecond)
	e.tx(func(tx Tx) error {
		_, err := e.scheduler().At(e.ctx, tx, m, at)
		return err
	})
	got, err := e.schedules().Scheduled(e.ctx, "a")
	e.must(err, "Scheduled")
	m.DeliverAt = at.UTC()
	if !reflect.DeepEqual(got, m) {
		e.Errorf("Scheduled() = %+v, want %+v", got, m)
	}
	if _, err := e.schedules().Scheduled(e.ctx, "b"); !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("Scheduled() of an unknown id: %v, want ErrNotFound", err)
	}
}

func scheduledCancelled[Tx any](e *env[Tx]) {
	e.later("a", time.Hour)
	if !e.cancelled("a") || e.cancelled("a") || e.cancelled("unknown") {
		e.Error("Cancel() is not true once, and false for what is not there")
	}
	e.advance(2 * time.Hour)
	e.release(0)
	e.wantNowhere("a")
}

func scheduledTooLate[Tx any](e *env[Tx]) {
	e.later("a", time.Hour)
	e.advance(2 * time.Hour)
	e.release(1)
	if e.cancelled("a") || e.moved("a", time.Now().Add(24*time.Hour)) {
		e.Error("what was released can be cancelled or moved, want neither")
	}
	e.want(inspect.Pending, "a")
}

// scheduledRace runs cancels and releases concurrently: each message is either cancelled or
// released.
func scheduledRace[Tx any](e *env[Tx]) {
	list := msgs("a", "", 20)
	for i := range list {
		e.later(list[i].ID, time.Hour)
	}
	e.advance(2 * time.Hour)
	var cancelled, released atomic.Int64
	e.concurrently(2, func(i int) error {
		if i == 0 {
			return repeatConflicts(func() error {
				n, err := e.s.ReleaseScheduled(e.ctx, allRows)
				released.Add(int64(n))
				return err
			})
		}
		for i := len(list) - 1; i >= 0; i-- {
			var ok bool
			err := repeatConflicts(func() (err error) {
				_, err = e.s.Transact(e.ctx, func(ctx context.Context, tx Tx) (_ outbox.Batch, err error) {
					ok, err = e.scheduler().Cancel(ctx, tx, list[i].ID)
					return outbox.Batch{}, err
				})
				return err
			})
			if err != nil {
				return err
			}
			if ok {
				cancelled.Add(1)
			}
		}
		return nil
	})
	n, err := e.s.ReleaseScheduled(e.ctx, allRows) // what the first release skipped
	e.must(err, "ReleaseScheduled")
	if sum := cancelled.Load() + released.Load() + int64(n); sum != int64(len(list)) {
		e.Errorf("%d cancelled, %d released, want %d together", cancelled.Load(), released.Load()+int64(n), len(list))
	}
	there := 0
	for i := range list {
		there += len(e.states(list[i].ID))
	}
	if want := len(list) - int(cancelled.Load()); there != want {
		e.Errorf("%d messages are in the outbox, want %d: the others were cancelled", there, want)
	}
}

func scheduledMoved[Tx any](e *env[Tx]) {
	e.later("a", time.Hour)
	at := time.Now().Add(10 * time.Hour).Round(time.Microsecond)
	for range 2 { // also to the time that it has
		if !e.moved("a", at) {
			e.Error("Reschedule() = false, want true")
		}
	}
	if e.moved("unknown", at) {
		e.Error("Reschedule() of what is not there = true, want false")
	}
	if m, err := e.schedules().Scheduled(e.ctx, "a"); err != nil || !m.DeliverAt.Equal(at) {
		e.Errorf("DeliverAt = %v, %v, want %v", m.DeliverAt, err, at)
	}
	e.advance(5 * time.Hour)
	e.release(0)
	tx := e.begin()
	_, err := e.scheduler().Reschedule(e.ctx, tx, "a", time.Now().Add(4*time.Hour)) // past by the store's clock
	e.rollback(tx)
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "at" {
		e.Errorf("Reschedule() to the past: %v, want an error that names at", err)
	}
	e.advance(6 * time.Hour)
	e.release(1)
	if state := e.want(inspect.Pending, "a"); state.DueAt != nil && !state.DueAt.Equal(at) {
		e.Errorf("DueAt = %v, want %v", state.DueAt, at)
	}
}

func scheduledTwice[Tx any](e *env[Tx]) {
	e.later("a", time.Hour)
	e.tx(func(tx Tx) error {
		s := e.scheduler()
		if _, err := s.After(e.ctx, tx, msg("a", ""), 2*time.Hour); !errors.Is(err, schedule.ErrExists) {
			e.Errorf("After() under an id that is scheduled: %v, want ErrExists", err)
		}
		if ok, err := s.Cancel(e.ctx, tx, "a"); !ok || err != nil {
			e.Errorf("Cancel() = %v, %v, want true in the same transaction", ok, err)
		}
		_, err := s.After(e.ctx, tx, msg("a", ""), 3*time.Hour)
		return err
	})
	e.advance(150 * time.Minute)
	e.release(0)
	e.want(inspect.Scheduled, "a")
}

func scheduledTaken[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.later("a", time.Hour)
	e.enqueue(msg("a", "k"))
	e.several("a")
	e.advance(2 * time.Hour)
	e.release(1)
	n.wantRefused("a")
	n.settle(published(n.claimOne("a"))...)
	e.requeue(e.letter().Number, true)
	n.claimOne("a")
}
