package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

func attemptTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"none", attemptsNone[Tx], nil},
		{"saved, read and due", attemptsSaved[Tx], nil},
		{"per key", attemptsPerKey[Tx], nil},
		{"cleared by processing", attemptsCleared[Tx], nil},
		{"kept if the handler fails again", attemptsKept[Tx], nil},
		{"cleared by the dead letter", attemptsBuried[Tx], nil},
		{"hostile error texts", attemptsErrorText[Tx], nil},
	}
}

func keyOf(consumer, id string) inbox.Key {
	m := msg(id, "k")
	return inbox.KeyOf(consumer, &m)
}

func (e *env[Tx]) saveAttempt(key inbox.Key, count int, wait time.Duration) {
	e.Helper()
	a := contract.FailedAttempt{Count: count, Wait: wait, Error: "card expired", Node: "c1", Took: time.Second}
	e.must(e.s.SaveAttempt(e.ctx, key, a), "SaveAttempt")
}

func (e *env[Tx]) attempts(key inbox.Key) contract.Attempts {
	e.Helper()
	a, err := e.s.FailedAttempts(e.ctx, key)
	e.must(err, "FailedAttempts")
	return a
}

func (e *env[Tx]) wantAttempts(key inbox.Key, count int) {
	e.Helper()
	if got := e.attempts(key).Count; got != count {
		e.Errorf("failed attempts = %d, want %d", got, count)
	}
}

func attemptsNone[Tx any](e *env[Tx]) {
	if a := e.attempts(keyOf("billing", "a")); a != (contract.Attempts{}) {
		e.Errorf("attempts of an unknown key = %+v, want none", a)
	}
}

func attemptsSaved[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	for count := 1; count <= 3; count++ {
		e.saveAttempt(key, count, time.Hour)
		a := e.attempts(key)
		if a.Count != count || a.Wait < 59*time.Minute || a.Wait > time.Hour {
			e.Errorf("attempts = %+v, want %d and about an hour", a, count)
		}
		e.advance(59 * time.Minute)
		if a = e.attempts(key); a.Wait <= 0 || a.Wait > 2*time.Minute {
			e.Errorf("wait after 59 minutes = %v, want about a minute", a.Wait)
		}
		e.advance(2 * time.Minute)
		if a = e.attempts(key); a != (contract.Attempts{Count: count, Error: "card expired"}) {
			e.Errorf("attempts after the wait = %+v, want %d that are due", a, count)
		}
	}
}

func attemptsPerKey[Tx any](e *env[Tx]) {
	e.saveAttempt(keyOf("billing", "a"), 2, 0)
	e.saveAttempt(keyOf("shipping", "a"), 3, 0)
	e.wantAttempts(keyOf("billing", "a"), 2)
	e.wantAttempts(keyOf("shipping", "a"), 3)
	e.wantAttempts(keyOf("billing", "b"), 0)
}

func attemptsCleared[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	rec := inbox.RecordOf("billing", &m)
	e.saveAttempt(rec.Key, 2, 0)
	e.saveAttempt(keyOf("shipping", "a"), 1, 0)
	rec.Retried = true
	e.processRecord(rec, inbox.Processed)
	e.wantAttempts(rec.Key, 0)
	e.wantAttempts(keyOf("shipping", "a"), 1)
}

func attemptsKept[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	rec := inbox.RecordOf("billing", &m)
	rec.Retried = true
	e.saveAttempt(rec.Key, 2, 0)
	_, err := e.s.ProcessOnce(e.ctx, rec, func(context.Context, Tx) error { return errors.New("card expired") })
	if err == nil {
		e.Error("ProcessOnce() = nil, want the handler's error")
	}
	e.wantAttempts(rec.Key, 2)
}

func attemptsBuried[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	e.saveAttempt(key, 2, 0)
	e.advance(time.Hour)
	e.bury("billing", msg("a", "k"))
	e.wantAttempts(key, 0)
	l := e.letter()
	e.wantRecent("FirstFailed", l.FirstFailed, 0)
	e.wantRecent("LastFailed", l.LastFailed, time.Hour)
}

func attemptsErrorText[Tx any](e *env[Tx]) {
	key := keyOf("billing", "a")
	for i, text := range []string{"", "a\x00b", "\xff", "'; --", `{"a",\`} {
		a := contract.FailedAttempt{Count: i + 1, Error: observe.ErrorText(textError(text))}
		e.must(e.s.SaveAttempt(e.ctx, key, a), "SaveAttempt")
		e.wantAttempts(key, i+1)
	}
}
