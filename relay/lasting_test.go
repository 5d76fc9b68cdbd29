package relay

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// failures counts the failed rounds of loops that are reported, by the loop.
type failures struct {
	observe.Observer
	mu    sync.Mutex
	loops map[string]int
}

// of returns the failures of one loop.
func (f *failures) of(loop string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loops[loop]
}

// all returns the failures of each loop that failed.
func (f *failures) all() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.loops)
}

func (f *failures) Observe(ctx context.Context, e observe.Event) {
	if e.Op == observe.OpLoop && e.Err != nil {
		f.mu.Lock()
		f.loops[e.Loop]++
		f.mu.Unlock()
	}
	f.Observer.Observe(ctx, e)
}

// failingRelease cannot release what is scheduled.
type failingRelease struct{ *fakeSource }

func (failingRelease) ReleaseScheduled(context.Context, int) (int, error) { return 0, errRefused }

// TestRelay_TellsOfLastingFailures: a settlement, or a release, that keeps failing is a failed loop
// after the first minute, and the relay is not well.
func TestRelay_TellsOfLastingFailures(t *testing.T) {
	t.Parallel()
	t.Run("settlement", func(t *testing.T) {
		t.Parallel()
		src, broker, seen := newFakeSource(), &fakeBroker{}, &failures{Observer: quiet, loops: make(map[string]int)}
		src.refuse = waybill.ConflictError(errRefused)
		src.add(message("orders", "k", 1))
		inBubble(t, src, []Destination{{Publisher: broker}}, Config{Observer: seen}, func(t *testing.T, r *Relay) {
			pass(59 * time.Second)
			if n := seen.of("relay settle"); n != 0 {
				t.Errorf("%d failures of the loop are reported within the first minute, want none", n)
			}
			pass(10 * time.Minute)
			if n := seen.of("relay settle"); n < 5 || n > 15 {
				t.Errorf("%d failures of the loop are reported in eleven minutes, want about one a minute", n)
			}
			var stalled *waybill.StalledError
			if err := r.Health(); !errors.As(err, &stalled) || !errors.Is(err, errRefused) || stalled.Age < 10*time.Minute {
				t.Errorf("Health() = %v, want the loop, since when, and why", err)
			}
			src.mu.Lock()
			src.refuse = nil
			src.mu.Unlock()
			pass(time.Minute)
			if err := r.Health(); err != nil || src.left() != 0 {
				t.Errorf("Health() = %v and %d left once settlements succeed", err, src.left())
			}
		})
	})
	t.Run("release", func(t *testing.T) {
		t.Parallel()
		src, seen := newFakeSource(), &failures{Observer: quiet, loops: make(map[string]int)}
		inBubbleWith(t, failingRelease{src}, src, []Destination{{Publisher: &fakeBroker{}}}, Config{Observer: seen}, func(t *testing.T, r *Relay) {
			pass(time.Minute)
			if n := seen.of("relay release"); n == 0 {
				t.Error("no failure of the loop is reported")
			}
			for range 60 {
				pass(time.Second)
				if r.Health() == nil {
					t.Fatal("Health() = nil while nothing can be released")
				}
			}
		})
	})
}
