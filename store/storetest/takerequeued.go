package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
)

func takeRequeuedTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"kept from others by its lease", takeLease[Tx], nil},
		{"by rising number", takeInOrder[Tx], nil},
		{"each by one of many", takeAtOnce[Tx], nil},
		{"is pending", takeOnItsWay[Tx], nil},
		{"under the key that it was buried under", takeKey[Tx], nil},
		{"run by another one meanwhile", takeOvertaken[Tx], nil},
		{"dead again meanwhile", takeDeadAgain[Tx], nil},
		{"starts stay until it is run", takeStarts[Tx], nil},
		{"starts end with the run", takeStartsEnd[Tx], nil},
		{"found after a restart", takePersists[Tx], []need{persists}},
	}
}

// take takes a requeued dead letter of billing for an hour.
func (e *env[Tx]) take(wantID string) contract.Requeued {
	e.Helper()
	r, found, err := e.s.TakeRequeued(e.ctx, "billing", time.Hour)
	e.must(err, "TakeRequeued")
	if found != (wantID != "") || r.Message.ID != wantID {
		e.Fatalf("TakeRequeued() = %+v, %v, want the letter of %q", r, found, wantID)
	}
	return r
}

// runTaken runs a dead letter that was taken; its handler writes an effect and returns result.
func (e *env[Tx]) runTaken(r contract.Requeued, result error) (found bool, err error) {
	e.Helper()
	return e.s.RunRequeued(e.ctx, r, "c1", func(ctx context.Context, tx Tx) error {
		return errors.Join(e.h.Effect(ctx, e.s, tx, r.Message.ID), result)
	})
}

func takeLease[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	e.take("a")
	e.advance(59 * minute)
	e.take("")
	e.advance(2 * minute)
	r := e.take("a")
	e.take("")
	if found, err := e.runTaken(r, nil); !found || err != nil {
		e.Fatalf("RunRequeued() = %v, %v", found, err)
	}
	e.wantEffects("a", 1)
	e.advance(2 * time.Hour)
	e.take("")
}

func takeInOrder[Tx any](e *env[Tx]) {
	e.requeued("billing", msgs("a", "k", 3)...)
	for _, id := range []string{"a1", "a2", "a3", ""} {
		e.take(id)
	}
}

func takeAtOnce[Tx any](e *env[Tx]) {
	list := msgs("a", "k", 12)
	e.requeued("billing", list...)
	var mu sync.Mutex
	var taken []string
	e.concurrently(4, func(int) error {
		for {
			var r contract.Requeued
			var found bool
			err := repeatConflicts(func() (err error) {
				r, found, err = e.s.TakeRequeued(e.ctx, "billing", time.Hour)
				return err
			})
			if err != nil || !found {
				return err
			}
			mu.Lock()
			taken = append(taken, r.Message.ID)
			mu.Unlock()
		}
	})
	slices.Sort(taken)
	want := ids(list)
	slices.Sort(want)
	if !slices.Equal(taken, want) {
		e.Errorf("taken: %v, want each once", taken)
	}
}

// takeOnItsWay: for operators a dead letter that was taken is still requeued.
func takeOnItsWay[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	r := e.take("a")
	e.requeue(r.Number, false)
	if _, err := e.s.ResolveDeadLetter(e.ctx, r.Number, by); !errors.Is(err, deadletter.ErrRequeued) {
		e.Errorf("ResolveDeadLetter() = %v, want ErrRequeued", err)
	}
	if l := e.letter(); !l.Requeued || l.Requeues != 1 {
		e.Errorf("letter = %+v, want it requeued once", l)
	}
	e.process("billing", msg("a", "k"), inbox.Dead)
}

func takeKey[Tx any](e *env[Tx]) {
	m := full("a")
	e.requeued("billing", m)
	r := e.take("a")
	e.wantMessage(r.Message, m)
	if want := inbox.KeyOf("billing", &m); r.Key != want || r.Number != e.letter().Number {
		e.Errorf("TakeRequeued() = number %d, key %+v, want %d, %+v", r.Number, r.Key, e.letter().Number, want)
	}
}

// takeOvertaken: the lease has run out before the dead letter was run, and another process was
// faster.
func takeOvertaken[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	r := e.take("a")
	e.advance(2 * time.Hour)
	e.wantRun("billing", true)
	if found, err := e.runTaken(r, nil); found || err != nil {
		e.Errorf("RunRequeued() = %v, %v, want false: the letter has gone", found, err)
	}
	e.wantEffects("a", 1)
}

func takeDeadAgain[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	r := e.take("a")
	e.advance(2 * time.Hour)
	e.wantRunFails(errors.New("card still expired"))
	if found, err := e.runTaken(r, nil); found || err != nil {
		e.Errorf("RunRequeued() = %v, %v, want false: the letter is dead again", found, err)
	}
	e.wantEffects("a", 0)
	if l := e.letter(); l.Requeued || l.Error != "card still expired" {
		e.Errorf("letter = %+v, want it dead", l)
	}
}

// takeStarts: what a process has recorded before it ended is kept when the lease has ended.
func takeStarts[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	for starts := range 3 {
		r := e.take("a")
		e.wantStarts(r.Key, starts)
		e.saveStarts(r.Key, starts+1)
		e.advance(2 * time.Hour)
	}
	r := e.take("a")
	e.wantStarts(r.Key, 3)
	poison := waybill.PermanentError(waybill.ReasonPoison, errors.New("ends the process"))
	if found, err := e.runTaken(r, poison); !found || !errors.Is(err, poison) {
		e.Fatalf("RunRequeued() = %v, %v", found, err)
	}
	if l := e.letter(); l.Requeued || l.Reason != waybill.ReasonPoison || l.Error != "ends the process" {
		e.Errorf("letter = %+v, want it dead as poison", l)
	}
	e.wantEffects("a", 0)
	e.wantStarts(r.Key, 0)
}

func takeStartsEnd[Tx any](e *env[Tx]) {
	for id, result := range map[string]error{
		"ok":      nil,
		"failed":  errors.New("card still expired"),
		"outage":  waybill.UnavailableError(errors.New("payment service is down")),
		"clashed": waybill.ConflictError(errors.New("deadlock")),
	} {
		e.bury("billing", msg(id, id))
		e.requeue(e.letterOf(id), true)
		r := e.take(id)
		e.saveStarts(r.Key, 2)
		if found, err := e.runTaken(r, result); !found || !errors.Is(err, result) {
			e.Fatalf("%s: RunRequeued() = %v, %v", id, found, err)
		}
		e.wantStarts(r.Key, 0)
		for _, l := range e.letters(deadletter.Filter{MessageID: id}) {
			if !l.Requeued {
				e.resolve(l.Number, true)
				continue
			}
			e.advance(minute)
			if found, err := e.runTaken(e.take(id), nil); !found || err != nil {
				e.Errorf("%s: RunRequeued() = %v, %v a minute later", id, found, err)
			}
		}
	}
}

func takePersists[Tx any](e *env[Tx]) {
	e.requeued("billing", msg("a", "k"))
	r := e.take("a")
	e.saveStarts(r.Key, 1)
	e.reopen()
	e.take("")
	e.advance(2 * time.Hour)
	e.wantStarts(e.take("a").Key, 1)
}
