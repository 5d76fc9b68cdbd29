package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// store is what a store's tables hold, and the rules of its rows.
type store struct {
	rows      []*row // by position, and by destination among equal ones
	dead      []*row
	position  int64
	lanes     []laneRow
	nodes     map[string]relaycore.Time // until when their leases hold
	published map[string]int            // settlements, by message and destination
}

// laneRow says who owns a lane.
type laneRow struct {
	owner string
	epoch int64
}

// row is a message in the outbox or among the waiting rows, or a dead letter.
type row struct {
	position int64
	lane     int
	id       string
	dest     string
	topic    string
	key      string
	tenant   string
	attempts int
	life     int
	waits    bool
	alone    bool
	due      relaycore.Time // of a waiting row; never if it is behind another one
	parks    bool           // of a dead letter
}

const never = relaycore.Time(1<<63 - 1)

func newStore(lanes int) *store {
	return &store{lanes: make([]laneRow, lanes), nodes: make(map[string]relaycore.Time), published: make(map[string]int)}
}

// enqueue adds a message.
func (s *store) enqueue(r row) {
	s.position++
	r.position = s.position
	s.rows = append(s.rows, &r)
}

// renew is the rule of leases: free the lanes of those whose lease has expired, give and take.
func (s *store) renew(node string, cmd relaycore.Renew, ttl, now relaycore.Time) relaycore.Event {
	if _, known := s.nodes[node]; !known && !cmd.Join {
		return relaycore.LeaseFailed{Lost: true, Err: errLost}
	}
	s.nodes[node] = now + ttl
	for other, until := range s.nodes {
		if until <= now {
			delete(s.nodes, other)
		}
	}
	for i := range s.lanes {
		if l := &s.lanes[i]; l.owner != "" {
			_, alive := s.nodes[l.owner]
			if !alive || l.owner == node && slices.Contains(cmd.Give, i) {
				l.owner = ""
			}
		}
	}
	lease := relaycore.Leased{Share: (len(s.lanes) + len(s.nodes) - 1) / len(s.nodes), Total: len(s.lanes)}
	owned := 0
	for _, l := range s.lanes {
		if l.owner == node {
			owned++
		}
	}
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.owner == "" && owned < lease.Share {
			l.owner, l.epoch = node, l.epoch+1
			owned++
		}
		if l.owner == node {
			lease.Lanes = append(lease.Lanes, relaycore.Lane{Number: i, Epoch: l.epoch})
		}
	}
	return lease
}

// leave frees the lanes of a relay.
func (s *store) leave(node string) {
	delete(s.nodes, node)
	for i := range s.lanes {
		if s.lanes[i].owner == node {
			s.lanes[i].owner = ""
		}
	}
}

func sameUnit(a, b *row) bool { return a.dest == b.dest && a.topic == b.topic && a.key == b.key }

// ahead reports whether an earlier message of r's unit waits in order, or is a dead letter that parks.
func (s *store) ahead(r *row) bool {
	if r.key == "" {
		return false
	}
	before := func(o *row) bool { return sameUnit(o, r) && o.position < r.position }
	return slices.ContainsFunc(s.rows, func(o *row) bool { return o.waits && !o.alone && before(o) }) ||
		slices.ContainsFunc(s.dead, func(o *row) bool { return o.parks && before(o) })
}

// claim is the rule of reading: waiting messages that are due first, then those that were never tried.
func (s *store) claim(cmd relaycore.Claim, now relaycore.Time, describe func(*row) relaycore.Message) relaycore.Claimed {
	epoch := func(r *row) (relaycore.Lane, bool) {
		i := slices.IndexFunc(cmd.Lanes, func(l relaycore.Lane) bool { return l.Number == r.lane })
		if i < 0 {
			return relaycore.Lane{}, false
		}
		return cmd.Lanes[i], true
	}
	var list []*row
	free := func(r *row) bool {
		_, mine := epoch(r)
		_, held := slices.BinarySearch(cmd.Held, r.position)
		if dests, partly := cmd.HeldFor[r.position]; partly && r.waits {
			held = slices.Contains(dests, r.dest)
		}
		return mine && !held
	}
	if cmd.Due {
		for _, r := range s.rows {
			if r.waits && free(r) && s.isDue(r, now, free) && !slices.Contains(cmd.Paused, r.dest) {
				list = append(list, r)
			}
		}
	}
	if !cmd.DueOnly {
		for _, r := range s.rows {
			if !r.waits && free(r) {
				list = append(list, r)
			}
		}
	}
	full := len(list) >= cmd.Limit
	if full {
		list = list[:cmd.Limit]
	}
	messages := make([]relaycore.Message, len(list))
	for i, r := range list {
		messages[i] = describe(r)
		messages[i].Lane, _ = epoch(r)
		messages[i].Blocked = !r.waits && s.ahead(r)
	}
	return relaycore.Claimed{Messages: messages, Full: full}
}

// claimAhead is the rule of reading past the backlog of some tenants: what was never tried of the others,
// but nothing that has an earlier one of its key which stays behind.
func (s *store) claimAhead(cmd relaycore.ClaimAhead, describe func(*row) relaycore.Message) relaycore.ClaimedAhead {
	found := relaycore.ClaimedAhead{Reached: cmd.Above}
	stays := make(map[[2]string]bool) // topics and keys
	for _, r := range s.rows {
		lane := slices.IndexFunc(cmd.Lanes, func(l relaycore.Lane) bool { return l.Number == r.lane })
		_, held := slices.BinarySearch(cmd.Held, r.position)
		unit, left := [2]string{r.topic, r.key}, r.position <= cmd.Above || slices.Contains(cmd.Without, r.tenant)
		switch {
		case r.waits || held || lane < 0:
		case left || r.key != "" && stays[unit]:
			stays[unit] = true
		default:
			m := describe(r)
			m.Lane, m.Blocked = cmd.Lanes[lane], s.ahead(r)
			found.Messages = append(found.Messages, m)
		}
		found.Reached = max(found.Reached, r.position)
		if len(found.Messages) == cmd.Limit {
			break
		}
	}
	return found
}

// isDue reports whether a waiting row may be read: the head of its unit, and behind one that has not
// failed the rest of it.
func (s *store) isDue(r *row, now relaycore.Time, free func(*row) bool) bool {
	if r.alone || r.key == "" || r.due <= now {
		return r.due <= now
	}
	for _, o := range s.rows {
		if o.waits && !o.alone && sameUnit(o, r) { // the first one is the head
			parked := slices.ContainsFunc(s.dead, func(d *row) bool {
				return d.parks && sameUnit(d, r) && d.position < r.position && d.position > o.position
			})
			return o.due <= now && free(o) && o.attempts == 0 && !parked
		}
	}
	return false
}

// settle is the rule of outcomes. It returns the lanes whose epoch does not hold any more.
func (s *store) settle(list []relaycore.Settlement, now relaycore.Time) (lost []int) {
	for i := range list {
		st := &list[i]
		m := st.Message
		if l := s.lanes[m.Lane.Number]; l.epoch != m.Lane.Epoch {
			lost = append(lost, m.Lane.Number)
			continue
		}
		at := slices.IndexFunc(s.rows, func(r *row) bool {
			return r.position == m.Position && r.waits == m.Waiting && (!r.waits || r.dest == m.Dest)
		})
		if at < 0 {
			continue // it is done
		}
		r := s.rows[at]
		s.rows = slices.Delete(s.rows, at, at+1)
		s.apply(st, r, now)
		s.follow(r, m.Dest, now)
	}
	return lost
}

func (s *store) apply(st *relaycore.Settlement, r *row, now relaycore.Time) {
	next := *r
	next.dest, next.waits = st.Message.Dest, true
	switch st.Outcome {
	case relaycore.Published:
		s.published[r.id+"@"+next.dest]++
		for _, d := range st.To {
			next.dest, next.attempts, next.due = d, 0, now
			s.put(next, now)
		}
	case relaycore.Fanout:
		for _, d := range st.To {
			next.dest, next.due = d, now
			s.put(next, now)
		}
	case relaycore.Wait:
		next.attempts, next.life, next.alone = st.Attempts, st.Life, r.alone || st.Alone
		next.due = now + st.After
		if st.Behind {
			next.due = now
		}
		s.put(next, now)
	case relaycore.DeadLetter, relaycore.FailedLetter:
		next.parks = st.Park
		s.dead = append(s.dead, &next)
	}
}

// put adds a waiting row: without a due time if it is behind another one.
func (s *store) put(r row, now relaycore.Time) {
	if !r.alone && s.ahead(&r) {
		r.due = never
	}
	s.rows = append(s.rows, &r)
	slices.SortStableFunc(s.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.dest, b.dest))
	})
}

// follow makes the first waiting message of a unit due if nothing holds it up any more.
func (s *store) follow(r *row, dest string, now relaycore.Time) {
	u := *r
	u.dest = dest
	for _, o := range s.rows {
		if o.waits && !o.alone && o.key != "" && sameUnit(o, &u) {
			if o.due == never && !s.ahead(o) {
				o.due = now
			}
			return
		}
	}
}

// resolve ends the parking of a dead letter, or puts it back.
func (s *store) resolve(i int, requeue bool, now relaycore.Time) {
	r := s.dead[i]
	if requeue {
		s.dead = slices.Delete(s.dead, i, i+1)
		back := *r
		back.waits, back.parks, back.attempts, back.life, back.due = true, false, 0, r.life+1, now
		back.alone = !r.parks
		s.put(back, now)
		return
	}
	r.parks = false
	s.follow(r, r.dest, now)
}

// left returns what is in the outbox and the waiting rows.
func (s *store) left() int { return len(s.rows) }

var leaseTTL = 8 * time.Second
