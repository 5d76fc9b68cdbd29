package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

func startTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"saved, read and taken back", startsSaved[Tx], nil},
		{"in addition to failed attempts", startsBesideAttempts[Tx], nil},
		{"ended by a failed attempt", startsEnded[Tx], nil},
		{"cleared by processing, and by a copy that comes later", startsCleared[Tx], nil},
		{"kept if the handler does not come back", startsKept[Tx], nil},
		{"cleared by the dead letter", startsBuried[Tx], nil},
		{"no first failure", startsAreNoFailure[Tx], nil},
		{"found after a restart", startsPersist[Tx], []need{persists}},
	}
}

func (e *env[Tx]) saveStarts(key inbox.Key, starts int) {
	e.Helper()
	e.must(e.s.SaveStarts(e.ctx, key, starts), "SaveStarts")
}

func (e *env[Tx]) wantStarts(key inbox.Key, starts int) {
	e.Helper()
	if got := e.attempts(key).Starts; got != starts {
		e.Errorf("starts = %d, want %d", got, starts)
	}
}

func startsSaved[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	e.saveStarts(key, 0)
	for starts := 1; starts <= 3; starts++ {
		e.saveStarts(key, starts)
		if a := e.attempts(key); a != (contract.Attempts{Starts: starts}) {
			e.Errorf("attempts = %+v, want %d starts and nothing else", a, starts)
		}
	}
	e.wantStarts(keyOf("shipping", "a"), 0)
	e.saveStarts(key, 0)
	if a := e.attempts(key); a != (contract.Attempts{}) {
		e.Errorf("attempts = %+v after the start was taken back, want none", a)
	}
}

func startsBesideAttempts[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	e.saveAttempt(key, 2, time.Hour)
	for _, starts := range []int{1, 0} {
		e.saveStarts(key, starts)
		if a := e.attempts(key); a.Count != 2 || a.Starts != starts || a.Wait < 59*time.Minute || a.Wait > time.Hour {
			e.Errorf("attempts = %+v, want 2 that failed, %d starts, and the wait as it was", a, starts)
		}
	}
}

func startsEnded[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	e.saveStarts(key, 2)
	e.saveAttempt(key, 1, 0)
	if a := e.attempts(key); a != (contract.Attempts{Count: 1, Error: "card expired"}) {
		e.Errorf("attempts = %+v, want one that failed and no start", a)
	}
}

func startsCleared[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	rec := inbox.RecordOf("billing", &m)
	rec.Retried = true
	for _, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
		e.saveStarts(rec.Key, 1)
		e.processRecord(rec, want)
		e.wantStarts(rec.Key, 0)
	}
}

func startsKept[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	rec := inbox.RecordOf("billing", &m)
	rec.Retried = true
	e.saveStarts(rec.Key, 1)
	_, err := e.s.ProcessOnce(e.ctx, rec, func(context.Context, Tx) error { return errors.New("card expired") })
	if err == nil {
		e.Error("ProcessOnce() = nil, want the handler's error")
	}
	e.wantStarts(rec.Key, 1)
}

func startsBuried[Tx any](e *env[Tx]) {
	e.saveStarts(keyOf("billing", "a"), 3)
	e.bury("billing", msg("a", "k"))
	e.wantStarts(keyOf("billing", "a"), 0)
}

func startsAreNoFailure[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	e.saveStarts(key, 1)
	e.advance(time.Hour)
	e.saveAttempt(key, 1, 0)
	e.saveStarts(key, 1)
	e.advance(time.Hour)
	e.bury("billing", msg("a", "k"))
	e.wantRecent("FirstFailed", e.letter().FirstFailed, time.Hour)
}

func startsPersist[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	e.saveAttempt(key, 2, time.Hour)
	e.saveStarts(key, 1)
	e.reopen()
	if a := e.attempts(key); a.Count != 2 || a.Starts != 1 || a.Wait <= 0 {
		e.Errorf("attempts = %+v after a restart, want 2 that failed, one start, and a wait", a)
	}
}
