package results

import (
	"context"
	"errors"
	"testing"
)

func TestSet_FirstResultCounts(t *testing.T) {
	t.Parallel()
	later := errors.New("later")
	s := New(2)
	s.Resolve(0, nil)
	s.Resolve(0, later)
	before := s.All()
	if s.Pending(0) || !s.Pending(1) || before[1] != ErrPending {
		t.Errorf("results %v, want the second one pending", before)
	}
	s.ResolveAll(later)
	if after := s.All(); after[0] != nil || after[1] != later || before[1] != ErrPending || s.Pending(1) {
		t.Errorf("results %v, then %v, want the first of each to stay", before, after)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open although all results are known")
	}
}

func TestSet_Wait(t *testing.T) {
	t.Parallel()
	late := errors.New("late")
	s := New(2)
	s.Resolve(0, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Wait(ctx, func() error { return late }); got[0] != nil || got[1] != late {
		t.Errorf("Wait() = %v, want what was known, and the error of the end", got)
	}
}

func TestNew_Empty(t *testing.T) {
	t.Parallel()
	select {
	case <-New(0).Done():
	default:
		t.Error("Done is open for a batch of no messages")
	}
}
