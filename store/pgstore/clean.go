package pgstore

import (
	"sync"

	"github.com/waybill-go/waybill/contract"
)

// maxCleanUnits bounds the memory of a cleanSet to some 10 MB with keys of a hundred bytes:
// a set that would grow beyond it is emptied first.
const maxCleanUnits = 50_000

// cleanUnit is a topic and key, under an ownership of its lane.
type cleanUnit struct {
	lane       contract.Lane
	topic, key string
}

func cleanUnitOf(c *contract.Claim) cleanUnit {
	return cleanUnit{c.Lane, c.Message.Address(), c.Message.Key}
}

// cleanSet remembers units of which nothing waits, so that a claim need not ask about each
// message whether an earlier one of its key does. Rows come to wait through settlements of
// the lane's owner, which the owner makes through one store: each takes its units out before
// it is sent. A lane that changes hands has a new epoch, and so none of its units is known.
//
// Another way to wait is a requeued dead letter. If another process requeues it, its unit
// stays in the set, and later messages of the key do not queue up behind the dead letter: they owe it no
// order, because they passed it when it was dead-lettered.
type cleanSet struct {
	mu      sync.Mutex
	units   map[cleanUnit]struct{}
	parking map[cleanUnit]int      // by settlements in progress
	spoiled map[cleanUnit]struct{} // parked since the current probe began; nil if there is none
	emptied bool                   // since the current probe began
}

func newCleanSet() *cleanSet {
	return &cleanSet{units: make(map[cleanUnit]struct{}), parking: make(map[cleanUnit]int)}
}

// unknown returns the units of claims with a key that are not known to be clean, each once,
// and begins a probe of them.
func (s *cleanSet) unknown(claims []contract.Claim) []cleanUnit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []cleanUnit
	listed := make(map[cleanUnit]bool)
	for i := range claims {
		u := cleanUnitOf(&claims[i])
		if _, known := s.units[u]; !known && u.key != "" && !listed[u] {
			listed[u] = true
			list = append(list, u)
		}
	}
	s.spoiled, s.emptied = make(map[cleanUnit]struct{}), false
	for u := range s.parking {
		s.spoiled[u] = struct{}{}
	}
	return list
}

// add ends a probe that found nothing waiting of the given units. One that was parked while
// it ran stays unknown: the probe may not have seen it.
func (s *cleanSet) add(units []cleanUnit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.units)+len(units) > maxCleanUnits {
		clear(s.units)
	}
	for _, u := range units {
		if _, spoiled := s.spoiled[u]; !spoiled && !s.emptied {
			s.units[u] = struct{}{}
		}
	}
	s.spoiled = nil
}

// park removes the units of settlements that may make something wait from the set, and keeps them out until
// the returned function is called, when the settlement has ended.
func (s *cleanSet) park(list []contract.Settlement) (done func()) {
	var units []cleanUnit
	for i := range list {
		if st := &list[i]; st.Outcome != contract.Published || len(st.Destinations) > 0 {
			units = append(units, cleanUnitOf(st.Claim))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range units {
		delete(s.units, u)
		s.parking[u]++
		if s.spoiled != nil {
			s.spoiled[u] = struct{}{}
		}
	}
	return func() { s.parked(units) }
}

func (s *cleanSet) parked(units []cleanUnit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range units {
		if s.parking[u]--; s.parking[u] == 0 {
			delete(s.parking, u)
		}
	}
}

// empty makes every unit unknown.
func (s *cleanSet) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.units)
	s.emptied = true
}
