package relay

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestRelay_StepsAside: a relay that has not reached its broker for some time lets its lease run out
// if there is another one, says so, and tries again; a relay that is the only one, or whose broker
// answers for a part of its destinations, keeps it.
func TestRelay_StepsAside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		alone, partly bool
		want          bool
	}{
		{name: "with another relay", want: true},
		{name: "alone", alone: true},
		{name: "one of two destinations answers", partly: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			src := newFakeSource()
			if !tt.alone {
				src.share = fakeLanes / 2
				src.lanes = src.lanes[:src.share]
			}
			var away atomic.Bool
			broker := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) {
				if away.Load() {
					return 0, waybill.UnavailableError(errRefused)
				}
				return 0, nil
			}}
			topic := func(name string) func(*waybill.Message) bool {
				return func(m *waybill.Message) bool { return m.Topic == name }
			}
			destinations := []Destination{{Name: "a", Publisher: broker, Match: topic("a")}}
			if tt.partly {
				destinations = append(destinations, Destination{Name: "b", Publisher: &fakeBroker{}, Match: topic("b")})
			}
			inBubble(t, src, destinations, Config{}, func(t *testing.T, r *Relay) {
				pass(time.Second)
				away.Store(true)
				stepped, well := false, 0
				for n := range 120 {
					src.add(message("a", "d", n+1)) // its lane is owned
					src.add(message("b", "d", n+1))
					pass(time.Second)
					stepped = stepped || r.Status().Lease < -r.cfg.RenewInterval
					if n > 30 && r.Health() == nil {
						well++
					}
				}
				if stepped != tt.want {
					t.Errorf("the lease ran out: %v, want %v", stepped, tt.want)
				}
				if tt.want && well > 0 || !tt.want && well == 0 {
					t.Errorf("Health() = nil in %d of 89 seconds, want all, or none where the relay steps aside", well)
				}
				away.Store(false)
				pass(time.Minute)
				if err := r.Health(); err != nil || len(broker.ids()) != 120 {
					t.Errorf("Health() = %v and %d messages arrived once the broker answers", err, len(broker.ids()))
				}
			})
		})
	}
}

// TestRelay_NothingToProbeWith: a relay that stood aside and has nothing to send in its grace period
// counts as well again: nothing counts against its destination.
func TestRelay_NothingToProbeWith(t *testing.T) {
	t.Parallel()
	src := newFakeSource()
	src.share = fakeLanes / 2
	src.lanes = src.lanes[:src.share]
	broker := &fakeBroker{answer: func(contract.Outgoing) (time.Duration, error) { return 0, waybill.UnavailableError(errRefused) }}
	src.add(message("a", "d", 1))
	inBubble(t, src, []Destination{{Publisher: broker}}, Config{}, func(t *testing.T, r *Relay) {
		pass(time.Minute)
		if r.Health() == nil {
			t.Error("Health() = nil while no destination answers")
		}
		src.mu.Lock()
		clear(src.rows) // another relay has published it
		for i := range src.lanes {
			src.lanes[i].Epoch++
		}
		src.mu.Unlock()
		pass(time.Minute)
		if err := r.Health(); err != nil {
			t.Errorf("Health() = %v, want nil with nothing left to send", err)
		}
	})
}
