package memstore

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// RenewLanes implements [contract.Source].
func (s *Store) RenewLanes(ctx context.Context, req contract.LeaseRequest) (lease contract.Lease, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		now := s.now()
		known, ok := s.data.relays[req.Node]
		if !ok && !req.Join {
			return waybill.ErrLeaseLost
		}
		put(tx, s.data.relays, req.Node, relayNode{started: orNow(known.started, now), until: now.Add(req.TTL), ttl: req.TTL})
		for node, other := range s.data.relays {
			if longest := now.Add(other.ttl); other.until.After(longest) { // the clock was set back
				other.until = longest
				put(tx, s.data.relays, node, other)
			}
			if node != req.Node && !other.until.After(now) {
				drop(tx, s.data.relays, node)
			}
		}
		s.freeLanes(tx, req)
		lease = s.takeLanes(tx, req.Node)
		return nil
	})
	return lease, err
}

// freeLanes frees the lanes that the request gives up and those whose owner is gone.
func (s *Store) freeLanes(tx *Tx, req contract.LeaseRequest) {
	for n, l := range s.data.lanes {
		_, alive := s.data.relays[l.owner]
		given := l.owner == req.Node && slices.Contains(req.Give, n)
		if l.owner != "" && (!alive || given) {
			l.owner, l.since = "", time.Time{}
			put(tx, s.data.lanes, n, l)
		}
	}
}

// takeLanes takes free lanes up to an even share.
func (s *Store) takeLanes(tx *Tx, node string) contract.Lease {
	lease := contract.Lease{Total: lanehash.Count, Share: (lanehash.Count + len(s.data.relays) - 1) / len(s.data.relays), Lanes: []contract.Lane{}}
	owned := 0
	for _, l := range s.data.lanes {
		if l.owner == node {
			owned++
		}
	}
	for n := range lanehash.Count {
		l := s.data.lanes[n]
		if l.owner == "" && owned < lease.Share {
			owned++
			l = lane{epoch: l.epoch + 1, owner: node, since: s.now()}
			put(tx, s.data.lanes, n, l)
		}
		if l.owner == node {
			lease.Lanes = append(lease.Lanes, contract.Lane{Number: n, Epoch: l.epoch})
		}
	}
	return lease
}

// LeaveLanes implements [contract.Source].
func (s *Store) LeaveLanes(ctx context.Context, node string) error {
	s.wake.Leave(node)
	return s.inTx(ctx, func(tx *Tx) error {
		drop(tx, s.data.relays, node)
		s.freeLanes(tx, contract.LeaseRequest{})
		return nil
	})
}

// ClaimMessages implements [contract.Source].
func (s *Store) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	claims := []contract.Claim{}
	err := s.inTx(ctx, func(*Tx) error {
		req.Lanes = s.current(req.Lanes)
		for _, w := range s.dueRows(req) {
			if !req.Full(claims) {
				claims = append(claims, s.claimWaiting(w, req.Lanes))
			}
		}
		if req.DueOnly {
			return nil
		}
		for _, l := range req.Lanes {
			for _, r := range sorted(s.data.outbox, func(r row) bool { return r.lane == l.Number && !isHeld(req, r) }, func(r row) int64 { return r.position }) {
				if !req.Full(claims) {
					claims = append(claims, s.claimReady(r, l))
				}
			}
		}
		return nil
	})
	return claims, err
}

// ClaimAhead implements [contract.AheadSource].
func (s *Store) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	claims = []contract.Claim{}
	limits, kept := contract.ClaimRequest{Limit: req.Limit, Bytes: req.Bytes, Held: req.Held}, make(map[[2]string]bool)
	err = s.inTx(ctx, func(*Tx) error {
		req.Lanes = s.current(req.Lanes)
		rows := sorted(s.data.outbox, func(r row) bool { return !isHeld(limits, r) }, func(r row) int64 { return r.position })
		upTo := int64(math.MaxInt64)
		for _, r := range rows {
			if r.position > req.Above && upTo == math.MaxInt64 {
				upTo = r.position - 1 + req.Span
			}
			if r.position > upTo || limits.Full(claims) {
				break
			}
			unit := [2]string{r.message.Address(), r.message.Key}
			lane := slices.IndexFunc(req.Lanes, func(l contract.Lane) bool { return l.Number == r.lane })
			stays := r.position <= req.Above || slices.Contains(req.Without, r.message.Tenant)
			switch {
			case lane < 0:
			case r.message.Key != "" && (stays || kept[unit]):
				kept[unit] = true
			case !stays:
				claims = append(claims, s.claimReady(r, req.Lanes[lane]))
			}
		}
		if len(rows) > 0 {
			upTo = min(upTo, rows[len(rows)-1].position)
		}
		reached = req.Reached(claims, upTo)
		return nil
	})
	return claims, reached, err
}

// current returns the lanes that still have their epoch.
func (s *Store) current(lanes []contract.Lane) []contract.Lane {
	return slices.DeleteFunc(slices.Clone(lanes), func(l contract.Lane) bool { return s.data.lanes[l.Number].epoch != l.Epoch })
}

// dueRows returns the waiting rows that may go: those that are due, and behind one that has
// not failed since it was let go the rest of its unit.
func (s *Store) dueRows(req contract.ClaimRequest) []waitingRow {
	if !req.Due {
		return nil
	}
	now := s.now()
	mine := make(map[int]bool, len(req.Lanes))
	for _, l := range req.Lanes {
		mine[l.Number] = true
	}
	due := make(map[place]bool)
	for _, w := range s.data.waiting {
		if !mine[w.lane] || w.due.IsZero() || w.due.After(now) || isHeldRow(req, w) || slices.Contains(req.Paused, w.destination) {
			continue
		}
		due[w.place()] = true
		for _, f := range s.followers(w) {
			if !isHeldRow(req, f) {
				due[f.place()] = true
			}
		}
	}
	return sorted(s.data.waiting, func(w waitingRow) bool { return due[w.place()] }, func(w waitingRow) int64 { return w.position })
}

// isHeld reports whether the caller has a row under way.
func isHeld(req contract.ClaimRequest, r row) bool {
	_, held := slices.BinarySearch(req.Held, r.position)
	return held
}

// isHeldRow is isHeld for a waiting row.
func isHeldRow(req contract.ClaimRequest, w waitingRow) bool {
	destinations, partly := req.HeldFor[w.position]
	return isHeld(req, w.row) && (!partly || slices.Contains(destinations, w.destination))
}

// followers returns the rows that go along with one that is due: the rest of its unit, up to a letter that parks
// it or a row that waits for its own time, unless the row has failed, is alone, or is not the first that waits.
func (s *Store) followers(w waitingRow) []waitingRow {
	if w.attempts > 0 || w.alone {
		return nil
	}
	u := unitOf(&w.row, w.destination)
	queue := s.data.queue(u)
	if len(queue) == 0 || queue[0].position < w.position {
		return nil
	}
	end := s.data.parkedFrom(u)
	var list []waitingRow
	for _, f := range queue {
		switch {
		case f.position <= w.position, f.position > end:
		case f.due.IsZero():
			list = append(list, f)
		case f.attempts > 0, f.due.After(s.now()):
			return list
		}
	}
	return list
}

func (s *Store) claimWaiting(w waitingRow, lanes []contract.Lane) contract.Claim {
	i := slices.IndexFunc(lanes, func(l contract.Lane) bool { return l.Number == w.lane })
	c := s.claim(w.row, lanes[i])
	c.Waiting, c.Destination, c.Attempts, c.Life = true, w.destination, w.attempts, w.life
	return c
}

func (s *Store) claimReady(r row, l contract.Lane) contract.Claim {
	c := s.claim(r, l)
	c.Blocked = s.data.blocked(&r)
	if r.message.DeliverAt.After(s.now()) {
		c.DelayFor = r.message.DeliverAt.Sub(s.now())
	}
	return c
}

func (s *Store) claim(r row, l contract.Lane) contract.Claim {
	c := contract.Claim{Message: r.message.Clone(), Lane: l, Position: r.position, Malformed: r.malformed}
	if expires := r.message.ExpiresAt; !expires.IsZero() {
		c.ExpiresIn = max(0, expires.Sub(s.now()))
		c.Expired = c.ExpiresIn == 0
	}
	return c
}

// MaintainArchive implements [contract.Source].
func (s *Store) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	var done contract.Maintained
	if req.Retention <= 0 {
		return done, nil
	}
	err := s.inTx(ctx, func(tx *Tx) error {
		limit := s.now().Add(-req.Retention)
		for n, a := range s.data.archive {
			if !a.publishedAt.After(limit) {
				drop(tx, s.data.archive, n)
				done.Rows++
			}
		}
		for id, at := range s.data.ids {
			if !at.After(limit) {
				drop(tx, s.data.ids, id)
				done.Rows++
			}
		}
		return nil
	})
	return done, err
}

// ReleaseScheduled implements [contract.Source].
func (s *Store) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	released := 0
	err := s.inTx(ctx, func(tx *Tx) error {
		due := sorted(s.data.scheduled, func(r row) bool { return !r.message.DeliverAt.After(s.now()) },
			func(r row) int64 { return r.message.DeliverAt.UnixMicro() })
		for _, r := range due[:min(limit, len(due))] {
			released++
			s.unschedule(tx, r)
			if id := r.identity(); s.data.pending(id) || s.data.waits(id) {
				s.bury(tx, waitingRow{row: r}, settleplan.Row{
					Reason: waybill.ReasonDuplicateID, Error: "a message with this id was on its way when this one was due"})
				continue
			}
			s.release(tx, r)
		}
		return nil
	})
	return released, err
}

// release puts a scheduled row back into the outbox, at a new position.
func (s *Store) release(tx *Tx, r row) {
	s.data.position++
	r.position = s.data.position
	put(tx, s.data.outbox, r.position, r)
}

func orNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}
