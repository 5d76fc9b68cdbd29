package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// laneSet is what the relay knows about the lanes it leases. A lane is leaving while the
// relay owns more than its share.
type laneSet struct {
	mu     sync.Mutex
	lanes  map[int]*laneState
	until  time.Time // the lease holds until then, on the monotonic clock
	joined bool
	total  int  // lanes that there are
	others bool // there are other relays
}

type laneState struct {
	Lane
	leaving bool
	again   bool // to be read from its beginning
}

func newLaneSet() *laneSet { return &laneSet{lanes: make(map[int]*laneState)} }

// staying returns the lanes that are owned and not leaving, by number.
func (s *laneSet) staying() (lanes []Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if !l.leaving {
			lanes = append(lanes, l.Lane)
		}
	}
	slices.SortFunc(lanes, func(a, b Lane) int { return a.Number - b.Number })
	return lanes
}

// takeAgain returns which of the lanes are to be read from their beginning, once. A lane that
// was told to leave since it was listed keeps its mark: what is held of it has not been let go
// of yet, and this claim leaves that out, so it is the next one that has to begin anew.
func (s *laneSet) takeAgain(lanes []Lane) (again []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		if st := s.lanes[l.Number]; st != nil && st.Lane == l && st.again && !st.leaving {
			again = append(again, l.Number)
			st.again = false
		}
	}
	return again
}

// claimable returns the lanes to claim from, and which of them to read from their beginning.
// One that has come back under a new epoch is left out while messages of the old one are
// under way: a claim would leave those out, and find what is behind them.
func (r *Relay) claimable() (lanes []Lane, again []int) {
	lanes = slices.DeleteFunc(r.lanes.staying(), r.backlog.holdsOlder)
	return lanes, r.lanes.takeAgain(lanes)
}

// all returns the lanes that the relay owns.
func (s *laneSet) all() []Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := make([]Lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		lanes = append(lanes, l.Lane)
	}
	return lanes
}

// readOn reports whether what a claim has found in a lane goes on from what is held of it. It
// does not if the lane was lost, leaves, or was to leave since the claim began: what was held
// of it was let go of, and must not be passed.
func (s *laneSet) readOn(l Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.lanes[l.Number]
	return st != nil && st.Lane == l && !st.leaving && !st.again
}

// readAgain makes the next claim read lanes from their beginning.
func (s *laneSet) readAgain(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range numbers {
		if l := s.lanes[n]; l != nil {
			l.again = true
		}
	}
}

// owns reports whether a lane is owned in the same lease of it.
func (s *laneSet) owns(l Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.lanes[l.Number]
	return st != nil && st.Lane == l
}

// stays reports whether a lane is owned and not leaving.
func (s *laneSet) stays(l Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.lanes[l.Number]
	return st != nil && st.Lane == l && !st.leaving
}

// drop forgets lanes that others own now.
func (s *laneSet) drop(lost map[Lane]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.lanes, func(_ int, l *laneState) bool { return lost[l.Lane] })
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

// shared reports whether there were other relays at the latest renewal.
func (s *laneSet) shared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others
}

// leaving returns the lanes that are to be given up.
func (s *laneSet) leaving() (numbers []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, l := range s.lanes {
		if l.leaving {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// leaseRequest returns what the next renewal needs: leaving lanes are given up once they are
// still.
func (r *Relay) leaseRequest() LeaseRequest {
	req := LeaseRequest{Node: r.cfg.Node, TTL: r.cfg.LeaseTTL, Join: !r.lanes.hasJoined()}
	for _, n := range r.lanes.leaving() {
		if r.backlog.still(n) {
			req.Give = append(req.Give, n)
		}
	}
	return req
}

func (s *laneSet) hasJoined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

// renewed takes in a lease that was asked for at the given time, and reports whether lanes
// were won, lost or have to leave.
func (s *laneSet) renewed(lease Lease, asked time.Time, ttl time.Duration) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.until, s.total, s.others = true, asked.Add(ttl), lease.Total, lease.Share < lease.Total
	owned := make(map[int]*laneState, len(lease.Lanes))
	for _, l := range lease.Lanes {
		st := s.lanes[l.Number]
		if st == nil || st.Lane != l {
			st, changed = &laneState{Lane: l, again: true}, true
		}
		owned[l.Number] = st
	}
	changed = changed || len(owned) != len(s.lanes)
	s.lanes = owned
	return s.markLeaving(len(owned)-lease.Share) || changed
}

// markLeaving chooses the lanes to give up, those that are leaving already first, and
// reports whether others than before have to leave.
func (s *laneSet) markLeaving(surplus int) (changed bool) {
	states := slices.SortedFunc(maps.Values(s.lanes), func(a, b *laneState) int {
		if a.leaving != b.leaving {
			if a.leaving {
				return -1
			}
			return 1
		}
		return b.Number - a.Number
	})
	for i, l := range states {
		leaving := i < surplus
		changed = changed || leaving != l.leaving
		l.leaving = leaving
		l.again = l.again || leaving // what was claimed of it is let go of
	}
	return changed
}

// count returns how many lanes are owned, and which part of all lanes they are.
func (s *laneSet) count() (owned int, part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes), float64(max(1, len(s.lanes))) / float64(max(1, s.total))
}

// renewRound extends the lease and, while lanes are on the move, comes back soon.
func (r *Relay) renewRound(ctx context.Context) error {
	if r.stepsAside(ctx) {
		loop.Sleep(ctx, r.cfg.RenewInterval/2)
		return nil
	}
	r.nameBefore(ctx)
	asked := time.Now()
	lease, err := r.src.RenewLanes(ctx, r.leaseRequest())
	if errors.Is(err, waybill.ErrLeaseLost) {
		r.lanes.reset()
		r.lanesChanged()
		r.forget()
		r.observe(ctx, waybill.Event{Op: waybill.OpLeaseLost, Err: err})
		return nil // join again at once
	}
	if err != nil {
		return err
	}
	r.nameAfter(ctx)
	if r.lanes.renewed(lease, asked, r.cfg.LeaseTTL) {
		r.lanesChanged()
		r.observe(ctx, waybill.Event{Op: waybill.OpLanes, Count: len(lease.Lanes)})
	}
	r.dispatch() // it may have held back for want of a lease
	wait := r.cfg.RenewInterval
	if len(r.lanes.leaving()) > 0 || len(lease.Lanes) < lease.Share {
		wait = min(wait, max(wait/8, 50*time.Millisecond))
	}
	loop.Sleep(ctx, wait-time.Since(asked))
	return nil
}

// lanesChanged lets go of what belongs to lanes that are not to be worked on any more, and
// looks for what the new ones hold.
func (r *Relay) lanesChanged() {
	r.backlog.drop(func(l Lane) bool { return !r.lanes.stays(l) })
	_, part := r.lanes.count()
	r.backlog.mu.Lock()
	for _, o := range r.outlets {
		o.pace.set(o.Rate * part)
	}
	r.backlog.mu.Unlock()
	r.due.in(0)
	r.news.ring()
	r.room.ring()
}

// forget drops what outlets remember about messages that others may publish now.
func (r *Relay) forget() {
	for _, o := range r.outlets {
		o.forget()
	}
}
