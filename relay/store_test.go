package relay

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
)

// silentSource answers nothing on the calls that are named, and notes calls without a deadline.
type silentSource struct {
	*fakeSource
	silent   func(call string) bool
	endless  atomic.Value // a call that had no deadline
	renewals []time.Time
}

func (s *silentSource) call(ctx context.Context, name string) error {
	if _, ok := ctx.Deadline(); !ok {
		s.endless.Store(name)
	}
	if s.silent != nil && s.silent(name) {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *silentSource) RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	if err := s.call(ctx, "renew"); err != nil {
		return contract.Lease{}, err
	}
	s.mu.Lock()
	s.renewals = append(s.renewals, time.Now())
	s.mu.Unlock()
	return s.fakeSource.RenewLanes(ctx, req)
}

func (s *silentSource) LeaveLanes(ctx context.Context, _ string) error { return s.call(ctx, "leave") }

func (s *silentSource) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	if err := s.call(ctx, "claim"); err != nil {
		return nil, err
	}
	return s.fakeSource.ClaimMessages(ctx, req)
}

func (s *silentSource) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	if err := s.call(ctx, "settle"); err != nil {
		return nil, err
	}
	return s.fakeSource.SettleMessages(ctx, req)
}

func (s *silentSource) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	return 0, 0, s.call(ctx, "count")
}

func (s *silentSource) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	if err := s.call(ctx, "release"); err != nil {
		return 0, err
	}
	return s.fakeSource.ReleaseScheduled(ctx, limit)
}

func (s *silentSource) MaintainArchive(ctx context.Context, _ contract.MaintainRequest) (contract.Maintained, error) {
	return contract.Maintained{}, s.call(ctx, "maintain")
}

func (s *silentSource) AwaitMessages(ctx context.Context, node string) error {
	if err := s.call(ctx, "await"); err != nil {
		return err
	}
	return s.fakeSource.AwaitMessages(ctx, node)
}

// TestRelay_CallsHaveDeadlines: whichever call the store does not answer, it ends, and the relay
// goes on as soon as the next one is answered.
func TestRelay_CallsHaveDeadlines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"renew", "claim", "settle", "count", "release", "maintain", "await", "leave"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, broker := newFakeSource(), &fakeBroker{}
			for n := range 10 {
				src.add(message("orders", "k", n+1))
			}
			unanswered := int32(2)
			s := &silentSource{fakeSource: src, silent: func(call string) bool { return call == name && atomic.AddInt32(&unanswered, -1) >= 0 }}
			inBubbleWith(t, s, src, []Destination{{Publisher: broker}}, Config{Order: Park}, func(t *testing.T, _ *Relay) {
				pass(time.Minute)
				inOrder(t, broker.ids(), 10)
				if src.left() != 0 {
					t.Errorf("%d are left", src.left())
				}
			})
			if call := s.endless.Load(); call != nil {
				t.Errorf("the call %q has no deadline", call)
			}
		})
	}
}

// TestRelay_StalledClaimsGiveUpTheLease: a relay that renews but cannot claim lets its lease run
// out, for long enough that others can take its lanes, and tries again after that.
func TestRelay_StalledClaimsGiveUpTheLease(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	src.share = fakeLanes / 2 // there is another relay
	src.lanes = src.lanes[:src.share]
	var stalled atomic.Bool
	s := &silentSource{fakeSource: src, silent: func(call string) bool { return call == "claim" && stalled.Load() }}
	inBubbleWith(t, s, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(time.Minute)
		gap := func() time.Duration {
			src.mu.Lock()
			defer src.mu.Unlock()
			longest := time.Duration(0)
			for i := range s.renewals[1:] {
				longest = max(longest, s.renewals[i+1].Sub(s.renewals[i]))
			}
			s.renewals = s.renewals[len(s.renewals)-1:]
			return longest
		}
		if got := gap(); got > r.cfg.RenewInterval {
			t.Errorf("%v passed between renewals while claims were answered, want at most %v", got, r.cfg.RenewInterval)
		}
		stalled.Store(true)
		src.add(message("orders", "d", 1))
		for range 60 {
			pass(time.Second)
			if r.Status().Lease < -time.Second && r.Health() == nil {
				t.Fatal("Health() = nil without a lease")
			}
		}
		if got := gap(); got <= r.cfg.LeaseTTL+r.cfg.RenewInterval {
			t.Errorf("%v passed between renewals while no claim was answered, want more than lease and interval of another relay", got)
		}
		stalled.Store(false)
		pass(time.Minute)
		if !slices.Equal(broker.ids(), []string{"orders/d/1"}) {
			t.Errorf("arrived: %v, want the message", broker.ids())
		}
	})
}
