package relaycore

import "time"

// Tokens of a rate are granted in portions, and at most a burst is saved up.
const (
	portion = 50 * time.Millisecond
	burst   = 100 * time.Millisecond
)

// pace is a rate limiter: a token bucket that holds at most a burst.
type pace struct {
	rate   float64 // per second; 0 means no limit
	tokens float64
	filled Time
}

// Products are converted to float64 before they are added to: a processor that multiplies and adds at once
// would round once only, and decide otherwise than others.

func (p *pace) size() float64    { return max(1, float64(p.rate*burst.Seconds())) }
func (p *pace) portion() float64 { return max(1, float64(p.rate*portion.Seconds())) }

// set changes the rate from now on.
func (p *pace) set(rate float64, now Time) {
	p.fill(now)
	p.rate = rate
	p.tokens = min(p.tokens, p.size())
}

func (p *pace) fill(now Time) {
	p.tokens = min(p.size(), p.tokens+float64(p.rate*(now-p.filled).Seconds()))
	p.filled = now
}

// allowed returns how many messages may be sent once next has passed, at most limit.
func (p *pace) allowed(limit int) int {
	if p.rate == 0 {
		return limit
	}
	return min(limit, int(p.tokens))
}

// next returns when messages may be sent.
func (p *pace) next(now Time) Time {
	if p.fill(now); p.rate == 0 || p.tokens >= p.portion() {
		return now
	}
	return now + time.Duration((p.portion()-p.tokens)/p.rate*float64(time.Second)) + time.Millisecond
}
