package relaycore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// TestRounding: what is computed in floating point is the same on every processor, also on those that
// multiply and add with one instruction, which rounds once (arm64, or GOAMD64=v3).
func TestRounding(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		p := pace{rate: 1000 * rng.Float64(), tokens: rng.Float64()}
		since := time.Duration(rng.Int64N(int64(time.Millisecond)))
		gained := float64(p.rate * since.Seconds())
		tokens := p.tokens + gained
		if p.fill(since); p.tokens != min(p.size(), tokens) {
			t.Fatalf("fill() makes %v tokens, want %v", p.tokens, tokens)
		}
		c := New(Config{BatchSize: 1, Seed: rng.Uint64(), Retry: waybill.RetryPolicy{BaseDelay: 1 << 52, MaxDelay: 1 << 52}})
		spread := float64(2 * jitterShare * (&Core{jitter: c.jitter}).random())
		factor := 1 - jitterShare + spread
		if got, want := c.delay(1), time.Duration(float64(1<<52)*factor); got != want {
			t.Fatalf("delay() = %v, want %v", got, want)
		}
	}
}
