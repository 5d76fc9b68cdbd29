package loop

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/observe"
)

type counter struct {
	observe.Observer
	failures int
}

func (c *counter) Observe(_ context.Context, e observe.Event) {
	if e.Op == observe.OpLoop && e.Err != nil {
		c.failures++
	}
}

func TestRun_SurvivesErrorsAndPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &counter{}
		l := &Loop{Name: "test", Observer: seen}
		if l.Health(time.Minute) == nil {
			t.Error("Health() = nil before Run")
		}
		ctx, cancel := context.WithCancel(t.Context())
		rounds := 0
		began := time.Now()
		l.Run(ctx, func(context.Context) error {
			switch rounds++; rounds {
			case 1:
				return errors.New("first")
			case 2:
				panic("second")
			case 3:
				return nil
			}
			cancel()
			return errors.New("after the end")
		})
		if rounds != 4 || seen.failures != 2 {
			t.Errorf("%d rounds and %d failures reported, want 4 and 2", rounds, seen.failures)
		}
		if took := time.Since(began); took != 3*backoffBase {
			t.Errorf("backed off for %v, want %v", took, 3*backoffBase)
		}
	})
}

func TestHealth_TurnsRedAndGreen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Name: "test", Observer: &counter{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		broken := errors.New("broken")
		var result atomic.Pointer[error]
		go l.Run(ctx, func(ctx context.Context) error {
			Sleep(ctx, time.Second)
			if failure := result.Load(); failure != nil {
				return *failure
			}
			return nil
		})
		time.Sleep(1500 * time.Millisecond)
		if err := l.Health(3 * time.Second); err != nil {
			t.Errorf("Health() = %v while rounds succeed", err)
		}
		result.Store(&broken)
		time.Sleep(30 * time.Second)
		if err := l.Health(3 * time.Second); !errors.Is(err, broken) {
			t.Errorf("Health() = %v while rounds fail, want why", err)
		}
		result.Store(nil)
		time.Sleep(10 * time.Second)
		if err := l.Health(3 * time.Second); err != nil {
			t.Errorf("Health() = %v after recovery", err)
		}
	})
}

func noMap() map[string]int { return nil }

func TestProtect_SaysWhere(t *testing.T) {
	t.Parallel()
	err := Protect(func() error {
		noMap()["x"] = 1
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "TestProtect_SaysWhere") || !strings.Contains(err.Error(), "loop_test.go:") {
		t.Errorf("Protect() = %v, want the place of the panic", err)
	}
}
