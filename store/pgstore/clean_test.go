package pgstore

import (
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func claimOf(key string, epoch int64) contract.Claim {
	return contract.Claim{Lane: contract.Lane{Number: 1, Epoch: epoch}, Message: waybill.Message{Topic: "orders", Key: key}}
}

func (s *cleanSet) knows(c contract.Claim) bool { return len(s.unknown([]contract.Claim{c})) == 0 }

func waits(c contract.Claim) []contract.Settlement {
	return []contract.Settlement{{Claim: &c, Outcome: contract.Wait}}
}

func TestCleanSet(t *testing.T) {
	t.Parallel()
	s := newCleanSet()
	a, b, none := claimOf("a", 1), claimOf("b", 1), claimOf("", 1)
	list := s.unknown([]contract.Claim{a, a, b, none})
	if len(list) != 2 {
		t.Fatalf("unknown() = %v, want a and b, each once", list)
	}
	s.add(list)
	if !s.knows(a) || !s.knows(b) {
		t.Error("what was probed is unknown")
	}
	if s.knows(claimOf("a", 2)) {
		t.Error("a is known under a new epoch of its lane")
	}
	s.park([]contract.Settlement{{Claim: &b, Outcome: contract.Published}})()
	s.park(waits(a))()
	if s.knows(a) || !s.knows(b) {
		t.Error("a was parked, b was published: want only b known")
	}
	s.empty()
	if s.knows(b) {
		t.Error("b is known after empty()")
	}
}

// TestCleanSet_Race: a probe that may not have seen what a settlement parks proves nothing.
func TestCleanSet_Race(t *testing.T) {
	t.Parallel()
	a := claimOf("a", 1)
	for name, probe := range map[string]func(s *cleanSet){
		"the settlement begins and ends within the probe": func(s *cleanSet) {
			list := s.unknown([]contract.Claim{a})
			s.park(waits(a))()
			s.add(list)
		},
		"it began before and ends within": func(s *cleanSet) {
			done := s.park(waits(a))
			list := s.unknown([]contract.Claim{a})
			done()
			s.add(list)
		},
		"two of one key, the first has ended": func(s *cleanSet) {
			first, second := s.park(waits(a)), s.park(waits(a))
			first()
			s.add(s.unknown([]contract.Claim{a}))
			second()
		},
		"emptied meanwhile": func(s *cleanSet) {
			list := s.unknown([]contract.Claim{a})
			s.empty()
			s.add(list)
		},
	} {
		s := newCleanSet()
		probe(s)
		if s.knows(a) {
			t.Errorf("%s: a is taken for clean", name)
		}
		if len(s.parking) > 0 {
			t.Errorf("%s: %d units are kept out for ever", name, len(s.parking))
		}
	}
}

func TestCleanSet_Bounded(t *testing.T) {
	t.Parallel()
	s := newCleanSet()
	for i := range 3 * maxCleanUnits / 1000 {
		claims := make([]contract.Claim, 1000)
		for j := range claims {
			claims[j] = claimOf(string(rune('a'+i))+string(rune(j+1)), 1)
		}
		s.add(s.unknown(claims))
	}
	if len(s.units) > maxCleanUnits {
		t.Errorf("%d units are kept, want at most %d", len(s.units), maxCleanUnits)
	}
}
