package handover

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

var errClosed = errors.New("closed")

func all(int) bool { return true }

func TestQueue_NoMoreThanPrefetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(2, func(d int) bool { return d != 3 })
		ctx, cancel := context.WithCancel(t.Context())
		var got []int
		served := make(chan error, 1)
		go func() { served <- q.Serve(ctx, nil, errClosed, func(d int) { got = append(got, d) }) }()
		want := func(list ...int) {
			t.Helper()
			if synctest.Wait(); !slices.Equal(got, list) {
				t.Fatalf("passed on: %v, want %v", got, list)
			}
		}
		q.Push(1)
		want(1)
		q.Push(2, 3, 4, 5, 6)
		want(1, 2)
		q.Free()
		want(1, 2, 4) // 3 is not to be taken
		q.Free()
		want(1, 2, 4, 5)
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve() = %v after its context was cancelled, want nil", err)
		}
		q.Free()
		want(1, 2, 4, 5)
		if left, drained := q.Waiting(), q.Drain(); !slices.Equal(left, []int{6}) || !slices.Equal(drained, left) || len(q.Drain()) > 0 {
			t.Errorf("waiting %v, drained %v, want 6 once", left, drained)
		}
	})
}

// TestQueue_EndsFirst: what has ended passes nothing on, although there is something and a slot.
func TestQueue_EndsFirst(t *testing.T) {
	t.Parallel()
	for range 100 {
		q := New(1, all)
		q.Push(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		deliver := func(int) { t.Error("deliver was called after the end") }
		if err := q.Serve(ctx, nil, errClosed, deliver); err != nil {
			t.Errorf("Serve() = %v with a cancelled context, want nil", err)
		}
		closed := make(chan struct{})
		close(closed)
		if err := q.Serve(t.Context(), closed, errClosed, deliver); err != errClosed {
			t.Errorf("Serve() = %v on a closed broker, want %v", err, errClosed)
		}
	}
}

func TestQueue_Fail(t *testing.T) {
	t.Parallel()
	q := New(1, all)
	wrong := errors.New("wrong")
	q.Fail(wrong)
	q.Fail(errClosed)
	if err := q.Serve(t.Context(), nil, errClosed, func(int) {}); err != wrong {
		t.Errorf("Serve() = %v, want the first failure", err)
	}
}

func TestQueue_Remove(t *testing.T) {
	t.Parallel()
	q := New(1, all)
	q.Push(1, 2, 3)
	q.Remove(func(d int) bool { return d != 2 })
	if left := q.Waiting(); q.Len() != 1 || !slices.Equal(left, []int{2}) {
		t.Errorf("%d left: %v, want 2", q.Len(), left)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		prefetch int
		want     []int
	}{{10, []int{4, 3, 3}}, {3, []int{1, 1, 1}}, {1, []int{1, 1, 1}}} {
		var got []int
		for i := range tc.want {
			got = append(got, Share(tc.prefetch, i, len(tc.want)))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("a prefetch of %d is shared as %v, want %v", tc.prefetch, got, tc.want)
		}
	}
}
