package brokerkit

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		for _, want := range []error{first, second} {
			ctx, endFirst := context.WithCancelCause(t.Context())
			other, endSecond := context.WithCancelCause(t.Context())
			joined, end := Join(ctx, other)
			if joined.Err() != nil {
				t.Errorf("ended with %v before both", context.Cause(joined))
			}
			if want == first {
				endFirst(first)
			} else {
				endSecond(second)
			}
			synctest.Wait()
			if got := context.Cause(joined); got != want {
				t.Errorf("ended with %v, want %v", got, want)
			}
			end()
			endFirst(nil)
			endSecond(nil)
		}
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	c := make(chan struct{})
	before := Closed(c)
	close(c)
	if before || Closed(nil) || !Closed(c) {
		t.Errorf("Closed() = %v before and %v after the close, want false and true", before, Closed(c))
	}
}

func TestLast(t *testing.T) {
	t.Parallel()
	self := func(ctx context.Context) context.Context { return ctx }
	if last := Last([]context.Context{t.Context()}, self); !last.IsZero() {
		t.Errorf("Last() = %v without deadlines, want none", last)
	}
	at := time.Now().Add(time.Hour)
	early, cancel := context.WithDeadline(t.Context(), at.Add(-time.Minute))
	defer cancel()
	late, cancel := context.WithDeadline(t.Context(), at)
	defer cancel()
	if last := Last([]context.Context{early, late, t.Context()}, self); !last.Equal(at) {
		t.Errorf("Last() = %v, want %v", last, at)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	var s Set[int]
	s.Remove(1)
	s.Add(1)
	s.Add(2)
	s.Add(2)
	s.Remove(1)
	if all := s.All(); !slices.Equal(all, []int{2}) {
		t.Errorf("All() = %v, want 2", all)
	}
}

func TestDecoded_Once(t *testing.T) {
	t.Parallel()
	var d Decoded
	calls := 0
	for range 2 {
		m, err := d.Get(func() (*waybill.Message, error) {
			calls++
			return &waybill.Message{ID: "1"}, contract.ErrConnectionLost
		})
		if m.ID != "1" || err != contract.ErrConnectionLost || calls != 1 {
			t.Errorf("Get() = %+v, %v after %d calls of decode, want those of one", m, err, calls)
		}
	}
}

func TestFate_SettledOnce(t *testing.T) {
	t.Parallel()
	errClosed := errors.New("closed")
	var f Fate
	if err := f.Settle("acknowledge", true, errClosed); !waybill.IsUnavailable(err) || !errors.Is(err, errClosed) || f.Settled() {
		t.Errorf("Settle() = %v on a closed broker, want unavailable, and the delivery unsettled", err)
	}
	if f.Handed() || !f.Hand() || !f.Handed() {
		t.Error("an open delivery is not handed on")
	}
	if err := f.Settle("acknowledge", false, errClosed); err != nil || !f.Settled() {
		t.Errorf("Settle() = %v, want nil", err)
	}
	if err := f.Settle("acknowledge", false, errClosed); !errors.Is(err, ErrSettled) || f.Take() || f.Hand() {
		t.Errorf("Settle() = %v the second time, want %v", err, ErrSettled)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 1000: 5 * time.Second,
	} {
		if got := Backoff(time.Second, n); got != want {
			t.Errorf("Backoff(1s, %d) = %v, want %v", n, got, want)
		}
	}
	for range 100 {
		if d := Spread(time.Second); d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Errorf("Spread(1s) = %v, want 1s ±20 %%", d)
		}
	}
}

func TestCheckPayload(t *testing.T) {
	t.Parallel()
	if err := CheckPayload(make([]byte, 3), 3); err != nil {
		t.Errorf("CheckPayload() = %v at the limit, want nil", err)
	}
	if err := CheckPayload(make([]byte, 4), 3); waybill.ReasonOf(err) != waybill.ReasonTooLarge {
		t.Errorf("CheckPayload() = %v above the limit, want too large", err)
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int32
		kick := make(chan struct{})
		go Every(ctx, time.Minute, kick, func() { calls.Add(1) })
		want := func(n int32) {
			t.Helper()
			synctest.Wait()
			if got := calls.Load(); got != n {
				t.Errorf("%d calls, want %d", got, n)
			}
		}
		want(0)
		<-time.After(time.Minute)
		want(1)
		kick <- struct{}{}
		want(2)
		cancel()
		<-time.After(time.Hour)
		want(2)
	})
}

func TestEnded(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	ctx, cancel := context.WithCancel(t.Context())
	before := Ended(ctx, wrong)
	if cancel(); before != wrong || Ended(ctx, wrong) != nil {
		t.Errorf("Ended() = %v before the end of the context and %v after it", before, Ended(ctx, wrong))
	}
}

func TestUnique(t *testing.T) {
	t.Parallel()
	if got := Unique([]int{12, 3, 15, 4, 11}, func(n int) int { return n % 10 }); !slices.Equal(got, []int{12, 3, 15, 4, 11}) {
		t.Errorf("Unique() = %v of different keys", got)
	}
	if got := Unique([]int{12, 3, 22, 13, 4}, func(n int) int { return n % 10 }); !slices.Equal(got, []int{12, 3, 4}) {
		t.Errorf("Unique() = %v, want the first of each key", got)
	}
}

func TestLag(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	count := func(n int64) (int64, error) {
		if n < 0 {
			return n, wrong
		}
		return n, nil
	}
	if lag, err := Lag([]int64{1, 2}, count); lag.Messages != 3 || err != nil {
		t.Errorf("Lag() = %+v, %v, want 3", lag, err)
	}
	if lag, err := Lag([]int64{1, -1, 2}, count); lag.Messages != 0 || err != wrong {
		t.Errorf("Lag() = %+v, %v, want nothing and the error", lag, err)
	}
}
