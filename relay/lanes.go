package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// laneSet is what the relay knows about the lanes it leases. A lane is busy while a batch
// of it is under way, and leaving while the relay owns more than its share.
type laneSet struct {
	mu     sync.Mutex
	lanes  map[int]*laneState
	next   int       // where the next claim starts, so that lanes take turns
	until  time.Time // the lease holds until then, on the monotonic clock
	joined bool
}

type laneState struct {
	Lane
	busy, leaving bool
}

func newLaneSet() *laneSet { return &laneSet{lanes: make(map[int]*laneState)} }

// idle marks every lane that is neither busy nor leaving as busy and returns them, each
// time starting at another one. The caller releases them.
func (s *laneSet) idle() []Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	var free []Lane
	for _, l := range s.lanes {
		if !l.busy && !l.leaving {
			l.busy = true
			free = append(free, l.Lane)
		}
	}
	slices.SortFunc(free, func(a, b Lane) int { return a.Number - b.Number })
	start, _ := slices.BinarySearchFunc(free, s.next, func(l Lane, n int) int { return l.Number - n })
	return slices.Concat(free[start:], free[:start])
}

// startAfter makes the next claim start behind lane n.
func (s *laneSet) startAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = n + 1
}

// release makes lanes idle again.
func (s *laneSet) release(lanes []Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		if st := s.lanes[l.Number]; st != nil && st.Epoch == l.Epoch {
			st.busy = false
		}
	}
}

// drop forgets lanes that others own now.
func (s *laneSet) drop(numbers []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range numbers {
		delete(s.lanes, n)
	}
}

// reset forgets everything: the relay must join again.
func (s *laneSet) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.lanes)
	s.joined, s.until = false, time.Time{}
}

// remaining returns how long the lease holds from now on.
func (s *laneSet) remaining() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.until)
}

// request returns what the next renewal needs.
func (s *laneSet) request(node string, ttl time.Duration) LeaseRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	req := LeaseRequest{Node: node, TTL: ttl, Join: !s.joined}
	for n, l := range s.lanes {
		if l.leaving && !l.busy {
			req.Give = append(req.Give, n)
		}
	}
	return req
}

// renewed takes in a lease that was asked for at the given time, and reports whether lanes
// were won or lost.
func (s *laneSet) renewed(lease Lease, asked time.Time, ttl time.Duration) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.until = true, asked.Add(ttl)
	owned := make(map[int]*laneState, len(lease.Lanes))
	for _, l := range lease.Lanes {
		st := s.lanes[l.Number]
		if st == nil || st.Epoch != l.Epoch {
			st, changed = &laneState{Lane: l}, true
		}
		owned[l.Number] = st
	}
	changed = changed || len(owned) != len(s.lanes)
	s.lanes = owned
	s.markLeaving(len(owned) - lease.Share)
	return changed
}

// markLeaving chooses the lanes to give up, idle ones first.
func (s *laneSet) markLeaving(surplus int) {
	states := make([]*laneState, 0, len(s.lanes))
	for _, l := range s.lanes {
		l.leaving = false
		states = append(states, l)
	}
	slices.SortFunc(states, func(a, b *laneState) int {
		if a.busy != b.busy {
			if b.busy {
				return -1
			}
			return 1
		}
		return b.Number - a.Number
	})
	for _, l := range states[:max(0, min(surplus, len(states)))] {
		l.leaving = true
	}
}

func (s *laneSet) count() (owned, share int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if l.leaving {
			share++
		}
	}
	return len(s.lanes), share
}

// renewRound extends the lease and, while lanes are on the move, comes back soon.
func (r *Relay) renewRound(ctx context.Context) error {
	asked := time.Now()
	// A renewal that outlasts the interval is of no use, and must not keep the next one back.
	call, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL-r.cfg.PublishTimeout)
	lease, err := r.src.RenewLanes(call, r.lanes.request(r.cfg.Node, r.cfg.LeaseTTL))
	cancel()
	if errors.Is(err, waybill.ErrLeaseLost) {
		r.lanes.reset()
		r.forget()
		r.observe(ctx, waybill.Event{Op: waybill.OpLeaseLost, Err: err})
		return nil // join again at once
	}
	if err != nil {
		return err
	}
	if r.lanes.renewed(lease, asked, r.cfg.LeaseTTL) {
		r.observe(ctx, waybill.Event{Op: waybill.OpLanes, Count: len(lease.Lanes)})
		r.poke()
	}
	wait := r.cfg.RenewInterval
	if _, leaving := r.lanes.count(); leaving > 0 || len(lease.Lanes) < lease.Share {
		wait = min(wait, max(wait/8, 50*time.Millisecond))
	}
	loop.Sleep(ctx, wait-time.Since(asked))
	return nil
}

// forget drops what outlets remember about messages that others may publish now.
func (r *Relay) forget() {
	for _, o := range r.outlets {
		o.forget()
	}
}
