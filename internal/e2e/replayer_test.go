package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/memstore"
)

// buried returns a store with a number of dead letters of a consumer.
func buried(t *testing.T, count int) *memstore.Store {
	t.Helper()
	s := memstore.New()
	for i := range count {
		m := waybill.Message{ID: fmt.Sprint("m", i), Topic: "orders", Source: "shop"}
		letter := inbox.Letter{Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonExhausted, Error: "no", Attempts: 1}
		if ok, err := s.BuryMessage(t.Context(), letter); !ok || err != nil {
			t.Fatalf("bury = %v, %v", ok, err)
		}
	}
	return s
}

func startReplay(t *testing.T, s deadletter.ReplayStore, p deadletter.Plan) int64 {
	t.Helper()
	number, err := s.StartReplay(t.Context(), p, deadletter.Act{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// runReplayer runs a replayer until the returned function is called.
func runReplayer(t *testing.T, s deadletter.ReplayStore, cfg deadletter.ReplayerConfig) (r *deadletter.Replayer, stop func()) {
	t.Helper()
	if cfg.Observer == nil {
		cfg.Observer = quiet
	}
	r, err := deadletter.NewReplayer(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, run(t, t.Context(), r.Run)
}

func replayOf(t *testing.T, s deadletter.ReplayStore, number int64) deadletter.Replay {
	t.Helper()
	r, err := s.Replay(context.Background(), number)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ramped returns how many letters a replay may have requeued some seconds after it was taken
// up, by its speeds of 1, 2, 5 … letters per second for 10 s each.
func ramped(seconds, rate int) int {
	speeds := []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	total := 0
	for s := range seconds {
		total += min(speeds[s/10], rate)
	}
	return total
}

// wantPace watches a replay for some seconds from when it was taken up. Several replayers may
// each be a batch ahead of what they know of the others.
func wantPace(t *testing.T, s deadletter.ReplayStore, number int64, seconds, rate, replayers int) {
	t.Helper()
	began := replayOf(t, s, number).Requeued
	for second := range seconds {
		<-time.After(time.Second)
		synctest.Wait()
		got, want := replayOf(t, s, number).Requeued-began, ramped(second+1, rate)
		speed := want - ramped(second, rate)
		if slack := 1 + 2*replayers*(1+speed/10); got > want+slack || got < want-slack {
			t.Fatalf("%d letters were requeued in %d s, want about %d", got, second+1, want)
		}
	}
}

// TestReplayPace lets one replay run up to its rate, and others that run with it do not make it
// faster.
//
//test:sessions
func TestReplayPace(t *testing.T) {
	t.Parallel()
	for _, replayers := range []int{1, 3} {
		t.Run(fmt.Sprint(replayers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := buried(t, 400)
				number := startReplay(t, s, deadletter.Plan{Rate: 10})
				for range replayers {
					runReplayer(t, s, deadletter.ReplayerConfig{})
				}
				wantPace(t, s, number, 50, 10, replayers)
				time.Sleep(time.Minute)
				if r := replayOf(t, s, number); r.State != deadletter.Done || r.Requeued != 400 {
					t.Errorf("replay = %+v, want it done", r)
				}
			})
		})
	}
}

// TestReplayResumed goes on with a replay that another process has begun, at the lowest speed
// first.
//
//test:sessions
func TestReplayResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := buried(t, 500)
		number := startReplay(t, s, deadletter.Plan{Rate: 200})
		_, stop := runReplayer(t, s, deadletter.ReplayerConfig{})
		time.Sleep(45 * time.Second)
		stop()
		before := replayOf(t, s, number)
		if before.State != deadletter.Running || before.Requeued < 200 || before.Requeued > 400 {
			t.Fatalf("replay = %+v, want it in the middle", before)
		}
		time.Sleep(time.Hour)
		runReplayer(t, s, deadletter.ReplayerConfig{})
		wantPace(t, s, number, 20, 200, 1)
		time.Sleep(time.Minute)
		if r := replayOf(t, s, number); r.State != deadletter.Done || r.Requeued != 500 || r.Skipped != 0 {
			t.Errorf("replay = %+v, want it done", r)
		}
		letters, err := s.DeadLetters(t.Context(), deadletter.Filter{Limit: 1000})
		if err != nil || len(letters) != 500 {
			t.Fatalf("%d letters, %v", len(letters), err)
		}
		for _, l := range letters {
			if l.Requeues != 1 {
				t.Errorf("letter %d was requeued %d times, want once", l.Number, l.Requeues)
			}
		}
	})
}

// TestReplaySlowRate takes ten seconds for each letter.
//
//test:sessions
func TestReplaySlowRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := buried(t, 10)
		number := startReplay(t, s, deadletter.Plan{Rate: 0.1})
		runReplayer(t, s, deadletter.ReplayerConfig{})
		time.Sleep(55 * time.Second)
		if r := replayOf(t, s, number); r.Requeued != 6 {
			t.Errorf("%d letters were requeued in 55 s, want 6", r.Requeued)
		}
	})
}

// TestReplaysFoundWhileRunning takes up a replay that is started later, and another one
// with it.
//
//test:sessions
func TestReplaysFoundWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := buried(t, 20)
		runReplayer(t, s, deadletter.ReplayerConfig{})
		time.Sleep(time.Hour)
		first := startReplay(t, s, deadletter.Plan{Filter: deadletter.Filter{MessageID: "m7"}})
		second := startReplay(t, s, deadletter.Plan{Filter: deadletter.Filter{MessageID: "m9"}})
		time.Sleep(3 * time.Second)
		for _, number := range []int64{first, second} {
			if r := replayOf(t, s, number); r.State != deadletter.Done || r.Requeued != 1 {
				t.Errorf("replay = %+v, want it done", r)
			}
		}
	})
}

// failingStore fails as it is configured to.
type failingStore struct {
	*memstore.Store
	err atomic.Pointer[error]
}

func (s *failingStore) AdvanceReplay(ctx context.Context, number int64, n int) (deadletter.Replay, error) {
	if err := s.err.Load(); err != nil {
		return deadletter.Replay{}, *err
	}
	return s.Store.AdvanceReplay(ctx, number, n)
}

// reported keeps what loops report.
type reported struct {
	observe.Observer
	seen chan error
}

func newReported() reported { return reported{quiet, make(chan error, 1000)} }

func (o reported) Observe(_ context.Context, e observe.Event) {
	if e.Op == observe.OpLoop && e.Err != nil {
		o.seen <- e.Err
	}
}

// TestReplayOutlivesErrors survives an outage, which is reported and turns Health red.
//
//test:sessions
func TestReplayOutlivesErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, observer := &failingStore{Store: buried(t, 20)}, newReported()
		number := startReplay(t, s, deadletter.Plan{})
		down := errors.New("down")
		s.err.Store(&down)
		r, _ := runReplayer(t, s, deadletter.ReplayerConfig{Observer: observer})
		time.Sleep(time.Minute)
		if err := r.Health(); !errors.Is(err, down) {
			t.Errorf("Health() = %v, want the error", err)
		}
		if err := <-observer.seen; !errors.Is(err, down) {
			t.Errorf("reported %v, want the error", err)
		}
		s.err.Store(nil)
		time.Sleep(time.Minute)
		if r := replayOf(t, s, number); r.State != deadletter.Done || r.Requeued != 20 {
			t.Errorf("replay = %+v, want it done", r)
		}
		if err := r.Health(); err != nil {
			t.Errorf("Health() = %v after the outage", err)
		}
	})
}

// TestReplayConflicts are tried again at the next tick, and reported only if they go on.
//
//test:sessions
func TestReplayConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, observer := &failingStore{Store: buried(t, 3)}, newReported()
		startReplay(t, s, deadletter.Plan{})
		conflict := waybill.ConflictError(errors.New("deadlock"))
		s.err.Store(&conflict)
		runReplayer(t, s, deadletter.ReplayerConfig{Observer: observer})
		time.Sleep(450 * time.Millisecond)
		if len(observer.seen) > 0 {
			t.Errorf("reported %v after half a second", <-observer.seen)
		}
		time.Sleep(time.Minute)
		if len(observer.seen) == 0 {
			t.Error("nothing was reported after a minute")
		}
	})
}

// TestReplayStopIsReported tells once of a replay that has stopped by itself.
//
//test:sessions
func TestReplayStopIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, observer := buried(t, 100), newReported()
		number := startReplay(t, s, deadletter.Plan{})
		runReplayer(t, s, deadletter.ReplayerConfig{Observer: observer})
		run(t, t.Context(), func(ctx context.Context) error { // what is requeued fails again at once
			for ctx.Err() == nil {
				r, _, _ := s.TakeRequeued(ctx, "billing", time.Minute)
				_, _ = s.RunRequeued(ctx, r, "r1", func(context.Context, *memstore.Tx) error {
					return waybill.PermanentError(waybill.ReasonRejected, errors.New("still no"))
				})
				loop.Sleep(ctx, 50*time.Millisecond)
			}
			return nil
		})
		time.Sleep(time.Minute)
		r := replayOf(t, s, number)
		if r.State != deadletter.Stopped || r.Requeued < 10 || r.Requeued > 12 {
			t.Errorf("replay = %+v, want it stopped after ten letters", r)
		}
		if len(observer.seen) != 1 {
			t.Fatalf("%d errors were reported, want 1", len(observer.seen))
		}
		if err := <-observer.seen; !strings.Contains(err.Error(), r.Problem) {
			t.Errorf("reported %v, want the problem %q", err, r.Problem)
		}
	})
}
