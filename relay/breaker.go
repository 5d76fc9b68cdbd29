package relay

import "time"

const (
	pauseBase = 100 * time.Millisecond
	pauseMax  = 10 * time.Second
)

// breaker holds back what does not answer, for a while that doubles from failure to failure.
type breaker struct {
	failures int // in a row
	since    time.Time
	until    time.Time
}

// paused returns how long the breaker holds back from now on, 0 if it does not.
func (b *breaker) paused() time.Duration { return max(0, time.Until(b.until)) }

// probing reports whether nothing has been heard since the last failure.
func (b *breaker) probing() bool { return b.failures > 0 }

// trip holds back for a while and returns it. What was under way when the breaker tripped,
// and fails too, does not make the while longer.
func (b *breaker) trip() time.Duration {
	if wait := b.paused(); wait > 0 {
		return wait
	}
	wait := min(pauseBase<<min(b.failures, 10), pauseMax)
	if b.failures++; b.failures == 1 {
		b.since = time.Now()
	}
	b.until = time.Now().Add(wait)
	return wait
}

// reset notes an answer, and reports whether there had been a failure before.
func (b *breaker) reset() bool {
	was := b.failures > 0
	*b = breaker{}
	return was
}
