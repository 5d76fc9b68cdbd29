package relay

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

// namedSource remembers until when leases hold, and answers as an [inspect.Relays].
type namedSource struct {
	*fakeSource
	states  sync.Mutex
	expires time.Time
}

func (s *namedSource) RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	s.states.Lock()
	s.expires = time.Now().Add(req.TTL)
	s.states.Unlock()
	return s.fakeSource.RenewLanes(ctx, req)
}

func (s *namedSource) RelayStates(context.Context) ([]inspect.RelayState, error) {
	s.states.Lock()
	defer s.states.Unlock()
	return []inspect.RelayState{{Node: "other"}, {Node: "mine", ExpiresAt: s.expires}}, nil
}

// TestRelay_NameIsTaken: a relay finds out that another one renews the lease of its name, says so and
// is not well, until the other one has gone.
func TestRelay_NameIsTaken(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	s, seen := &namedSource{fakeSource: src}, &failures{Observer: quiet, loops: make(map[string]int)}
	inBubbleWith(t, s, src, []Destination{{Publisher: &fakeBroker{}}}, Config{Node: "mine", Observer: seen}, func(t *testing.T, r *Relay) {
		pass(5 * time.Minute)
		if err := r.Health(); err != nil || len(seen.all()) > 0 {
			t.Fatalf("Health() = %v and failures %v without another relay", err, seen.all())
		}
		pass(700 * time.Millisecond)
		for range 60 { // another relay
			if _, err := s.RenewLanes(t.Context(), contract.LeaseRequest{Node: "mine", TTL: r.cfg.LeaseTTL}); err != nil {
				t.Fatal(err)
			}
			pass(2 * time.Second)
		}
		if err := r.Health(); err == nil || seen.of("relay lease") == 0 {
			t.Errorf("Health() = %v and failures %v, want both to tell of the other relay", err, seen.all())
		}
		pass(2 * time.Minute)
		if err := r.Health(); err != nil {
			t.Errorf("Health() = %v after the other relay has gone, want nil", err)
		}
	})
}

// TestRelay_NameAfterClockSetBack: the store's clock is set back, and another relay cuts the lease of this one, as stores
// do. That is nobody of the same name.
func TestRelay_NameAfterClockSetBack(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	s, seen := &namedSource{fakeSource: src}, &failures{Observer: quiet, loops: make(map[string]int)}
	inBubbleWith(t, s, src, []Destination{{Publisher: &fakeBroker{}}}, Config{Node: "mine", Observer: seen}, func(t *testing.T, r *Relay) {
		pass(700 * time.Millisecond)
		for range 180 { // a cut between any two renewals
			s.states.Lock()
			s.expires = s.expires.Add(-time.Hour)
			s.states.Unlock()
			pass(time.Second)
			if err := r.Health(); err != nil || len(seen.all()) > 0 {
				t.Fatalf("Health() = %v and failures %v after the clock was set back, want none", err, seen.all())
			}
		}
	})
}

// forgetfulSource passes over a message until the lanes are read from their beginning.
type forgetfulSource struct{ *fakeSource }

func (s forgetfulSource) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	claims, err := s.fakeSource.ClaimMessages(ctx, req)
	return slices.DeleteFunc(claims, func(c contract.Claim) bool {
		return c.Message.Topic == "forgotten" && !slices.Contains(req.Again, c.Lane.Number)
	}), err
}

// TestRelay_ReadsAgain: lanes are read from their beginning from time to time, so that what a store has
// passed over is found in the end.
func TestRelay_ReadsAgain(t *testing.T) {
	t.Parallel()
	src, broker := newFakeSource(), &fakeBroker{}
	inBubbleWith(t, forgetfulSource{src}, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, _ *Relay) {
		pass(time.Minute)
		src.add(message("forgotten", "k", 1))
		pass(20 * time.Minute)
		inOrder(t, broker.ids(), 1)
	})
}
