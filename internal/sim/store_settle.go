package main

import (
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// settle is the rule of outcomes. It returns the lanes that the relay no longer owns. The rows of followers
// come first: there is none for a follower that has the message already, even if that is settled by the same
// call.
func (s *store) settle(node string, list []relaycore.Settlement, now relaycore.Time) (lost []int) {
	var done []*row
	var dests [][]string
	for i := range list {
		st := &list[i]
		if at := s.find(st.Message); at >= 0 && s.owns(node, st.Message.Lane) && st.Outcome == relaycore.Published {
			next := *s.rows[at]
			next.waits, next.attempts, next.life, next.alone = true, 0, 0, false
			s.divide(next, st.To, now)
		}
	}
	for i := range list {
		st := &list[i]
		m := st.Message
		if !s.owns(node, m.Lane) {
			lost = append(lost, m.Lane.Number)
			continue
		}
		at := s.find(m)
		if at < 0 {
			continue // it is done
		}
		r := s.rows[at]
		s.rows = slices.Delete(s.rows, at, at+1)
		dests = append(dests, append([]string{m.Dest}, st.To...))
		s.apply(st, r, now)
		done = append(done, r)
	}
	for i, r := range done {
		for _, d := range dests[i] {
			s.follow(r, d, now)
		}
	}
	return lost
}

// find returns the index of the row that a message was read from, below 0 if it is gone.
func (s *store) find(m *relaycore.Message) int {
	return slices.IndexFunc(s.rows, func(r *row) bool { return r.is(m) })
}

// owns reports whether a relay owns a lane at the epoch that it knows.
func (s *store) owns(node string, l relaycore.Lane) bool {
	return s.lanes[l.Number] == laneRow{node, l.Epoch}
}

func (s *store) apply(st *relaycore.Settlement, r *row, now relaycore.Time) {
	next := *r
	next.dest, next.waits = st.Message.Dest, true
	switch st.Outcome {
	case relaycore.Published:
		s.published[r.id+"@"+next.dest]++
	case relaycore.Fanout:
		s.divide(next, st.To, now)
	case relaycore.Schedule:
		next.waits = false
		s.scheduled = append(s.scheduled, &next)
	case relaycore.Wait:
		next.attempts, next.life, next.alone = st.Attempts, st.Life, st.Alone
		next.due = now + st.After
		if st.Behind {
			next.due = never
		}
		s.put(next, now)
	case relaycore.DeadLetter, relaycore.FailedLetter:
		next.parks = st.Park
		s.dead = append(s.dead, &next)
	}
}

// divide adds a waiting row for each of some destinations. With a key the first of its unit becomes due when
// everything else is done.
func (s *store) divide(r row, dests []string, now relaycore.Time) {
	for _, d := range dests {
		if r.dest, r.due = d, now; r.key != "" {
			r.due = never
		}
		s.put(r, now)
	}
}

// put adds a waiting row, unless it exists already: without a due time if it is behind another one.
func (s *store) put(r row, now relaycore.Time) {
	if slices.ContainsFunc(s.rows, func(o *row) bool { return o.waits && o.position == r.position && o.dest == r.dest }) {
		return
	}
	if !r.alone && s.ahead(&r) {
		r.due = never
	}
	s.rows = append(s.rows, &r)
	s.sort()
}

// follow makes the first waiting message of a unit due if nothing blocks it any more.
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

// resolve resolves a dead letter, or requeues it. It returns false if that is not possible yet: an earlier
// message of its key is in the outbox.
func (s *store) resolve(i int, requeue bool, now relaycore.Time) bool {
	r := s.dead[i]
	if requeue {
		if slices.ContainsFunc(s.rows, func(o *row) bool {
			return !o.waits && r.key != "" && o.topic == r.topic && o.key == r.key && o.position < r.position
		}) {
			return false
		}
		s.dead = slices.Delete(s.dead, i, i+1)
		back := *r
		back.waits, back.parks, back.resolved, back.alone, back.requeued = true, false, false, false, true
		back.attempts, back.life, back.due = 0, r.life+1, now
		s.put(back, now)
		return true
	}
	r.parks, r.resolved = false, true
	s.follow(r, r.dest, now)
	return true
}
