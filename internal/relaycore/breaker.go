package relaycore

import "time"

const (
	pauseBase = 100 * time.Millisecond
	pauseMax  = 10 * time.Second
)

// breaker pauses what does not answer, for a time that doubles from failure to failure.
type breaker struct {
	failures int // in a row
	since    Time
	until    Time
}

// paused returns how long the pause lasts from now on, 0 if there is none.
func (b *breaker) paused(now Time) time.Duration { return max(0, b.until-now) }

// probing reports whether nothing has been accepted since the last failure.
func (b *breaker) probing() bool { return b.failures > 0 }

// trip pauses and returns for how long. What was in flight when the breaker tripped, and fails too,
// does not make the pause longer.
func (b *breaker) trip(now Time) time.Duration {
	if wait := b.paused(now); wait > 0 {
		return wait
	}
	if b.failures++; b.failures == 1 {
		b.since = now
	}
	wait := backoff(pauseBase, b.failures-1, pauseMax)
	b.until = now + wait
	return wait
}

// reset notes an answer, and reports whether there had been a failure before.
func (b *breaker) reset() bool {
	was := b.failures > 0
	*b = breaker{}
	return was
}

// backoff returns base, doubled for each failure before, at most limit.
func backoff(base time.Duration, failures int, limit time.Duration) time.Duration {
	return min(base<<min(failures, 20), limit)
}

// attempts remembers since when something has been tried without success.
type attempts struct {
	trying bool
	since  Time
	told   int // minutes without success that were reported
	err    error
}

// begin notes an attempt.
func (a *attempts) begin(now Time) {
	if !a.trying {
		a.trying, a.since = true, now
	}
}

// end notes what an attempt came to.
func (a *attempts) end(err error) {
	if err == nil {
		*a = attempts{}
		return
	}
	a.err = err
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
