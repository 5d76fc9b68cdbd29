package relay

import (
	"time"

	"github.com/waybill-go/waybill/internal/span"
)

// What a rate gives in so much time goes at once, and at most so much is saved up.
const (
	portion = 50 * time.Millisecond
	burst   = 100 * time.Millisecond
)

// pace meters a rate: a bucket of tokens that fills up to what the rate gives in a burst.
type pace struct {
	rate   float64 // per second; 0 means without limit
	tokens float64
	filled time.Time
}

// set changes the rate from now on.
func (p *pace) set(rate float64) {
	p.fill()
	p.rate = rate
	p.tokens = min(p.tokens, p.room())
}

func (p *pace) room() float64 { return max(1, p.rate*burst.Seconds()) }

func (p *pace) fill() {
	now := time.Now()
	p.tokens = min(p.room(), p.tokens+p.rate*now.Sub(p.filled).Seconds())
	p.filled = now
}

// portion returns how many tokens are worth a batch.
func (p *pace) portion() float64 { return max(1, p.rate*portion.Seconds()) }

// allowed returns how many may go now, at most limit.
func (p *pace) allowed(limit int) int {
	if p.rate == 0 {
		return limit
	}
	if p.fill(); p.tokens < p.portion() {
		return 0
	}
	return min(limit, int(p.tokens))
}

// use takes tokens for what goes now.
func (p *pace) use(n int) { p.tokens -= float64(n) }

// wait returns how long until some may go, 0 if they may now.
func (p *pace) wait() time.Duration {
	if p.rate == 0 {
		return 0
	}
	if p.fill(); p.tokens >= p.portion() {
		return 0
	}
	return span.Of((p.portion()-p.tokens)/p.rate+0.001, time.Second)
}

// slots hands out times to come back at to messages that are sent away, one after the other
// at a rate, so that not all come back at once.
type slots struct {
	next map[string]time.Time // by tenant
}

// after returns how long from now a message of the tenant is to stay away: at least a while,
// and behind those of the same tenant that were sent away before.
func (s *slots) after(tenant string, least time.Duration, rate float64) time.Duration {
	now := time.Now()
	at := now.Add(least)
	if next := s.next[tenant]; next.After(at) {
		at = next
	}
	if s.next == nil || len(s.next) > maxTenantSlots {
		s.next = make(map[string]time.Time)
	}
	s.next[tenant] = at.Add(span.Of(1/rate, time.Second))
	return at.Truncate(slotStep).Add(slotStep).Sub(now) // several together: each look for them costs
}

const (
	slotStep       = 500 * time.Millisecond
	maxTenantSlots = 10_000 // then all begin anew: some messages come back too early
)
