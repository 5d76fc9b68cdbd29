package relaycore

import "time"

// attempts is the state of a repeated operation: a claim, a renewal, a settlement, or sending to a queue,
// where it is the circuit breaker.
type attempts struct {
	ok       Time // of the latest success
	trying   bool // there was an attempt since
	since    Time // the first of these
	failures int  // in a row
	until    Time // no other attempt before
	err      error
	told     int // minutes without success that were reported
}

// begin records an attempt.
func (a *attempts) begin(now Time) {
	if !a.trying {
		a.trying, a.since = true, now
	}
}

// fail records a failure and delays the next attempt: by base, doubled for each failure before, at most by
// limit.
func (a *attempts) fail(now Time, err error, base, limit time.Duration) (wait time.Duration) {
	a.begin(now)
	wait = min(base<<min(a.failures, 20), limit)
	a.until, a.err = now+wait, err
	a.failures++
	return wait
}

// succeed records a success, and reports whether there had been a failure before.
func (a *attempts) succeed(now Time) bool {
	was := a.failures > 0
	*a = attempts{ok: now}
	return was
}

// age returns for how long there has been no success; 0 if the latest attempt was one.
func (a *attempts) age(now Time) time.Duration {
	if !a.trying {
		return 0
	}
	return now - a.since
}

// overdue returns the age, and true once for each minute of it.
func (a *attempts) overdue(now Time) (age time.Duration, due bool) {
	age = a.age(now)
	minutes := int(age / time.Minute)
	due = minutes > a.told
	a.told = max(a.told, minutes)
	return age, due
}

const (
	pauseBase = 100 * time.Millisecond
	pauseMax  = 10 * time.Second
)

// trip pauses a queue and returns for how long. What was in flight when it was paused, and also fails,
// does not extend the pause.
func (a *attempts) trip(now Time) time.Duration {
	if wait := a.paused(now); wait > 0 {
		return wait
	}
	return a.fail(now, nil, pauseBase, pauseMax)
}

// paused returns how much longer the pause lasts, 0 if there is none.
func (a *attempts) paused(now Time) time.Duration { return max(0, a.until-now) }

// probing reports whether there was no success since the last failure.
func (a *attempts) probing() bool { return a.failures > 0 }
