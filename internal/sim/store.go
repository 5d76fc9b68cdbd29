package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// store is what a store's tables hold, and the rules of its rows.
type store struct {
	rows      []*row // by position, and by destination among equal ones
	open      []*row // of transactions that have not committed
	scheduled []*row // not in the outbox before their time
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
	resolved bool           // of a dead letter
	expires  relaycore.Time // 0 if it does not
	deliver  relaycore.Time // not to be sent before; 0 if it may
	routes   []string       // the destinations that it goes to; nil if it goes to all
	size     int            // of its payload
	odd      oddity
	requeued bool // by an operator
}

// oddity says what is wrong with a message.
type oddity int

const (
	malformed oddity = iota + 1 // it does not decode
	unrouted                    // no destination matches it
	unasked                     // its destination cannot always be asked whether it matches
)

// routesOf returns the destinations of the row, of those that there are.
func (r *row) routesOf(dests []string) []string {
	switch {
	case r.odd == unrouted:
		return nil
	case r.routes != nil:
		return r.routes
	}
	return dests
}

// goesTo reports whether the row is for a destination that is no follower.
func (r *row) goesTo(dest string) bool {
	return dest != follower && r.odd != unrouted && (r.routes == nil || slices.Contains(r.routes, dest))
}

const never = relaycore.Time(1<<63 - 1)

func newStore(lanes int) *store {
	return &store{lanes: make([]laneRow, lanes), nodes: make(map[string]relaycore.Time), published: make(map[string]int)}
}

// begin draws the position of a message whose transaction has yet to commit.
func (s *store) begin(r row) *row {
	s.position++
	r.position = s.position
	s.open = append(s.open, &r)
	return &r
}

// release moves messages that have come due into the outbox, where they get a new place. Like any
// enqueue they wait for an open transaction that writes their key.
func (s *store) release(limit int, now relaycore.Time) relaycore.Event {
	moved := 0
	s.scheduled = slices.DeleteFunc(s.scheduled, func(r *row) bool {
		writes := func(o *row) bool { return o.key != "" && o.key == r.key }
		due := r.deliver <= now && moved < limit && !slices.ContainsFunc(s.open, writes)
		if due {
			moved++
			r.deliver = 0
			s.commit(s.begin(*r))
		}
		return due
	})
	return relaycore.Released{Count: moved}
}

// count counts what is parked behind dead letters.
func (s *store) count() relaycore.Event {
	keys, messages := make(map[string]bool), 0
	for _, r := range s.rows {
		if r.waits && slices.ContainsFunc(s.dead, func(d *row) bool { return d.parks && sameUnit(d, r) && d.position < r.position }) {
			keys[r.topic+"/"+r.key] = true
			messages++
		}
	}
	return relaycore.Counted{Keys: len(keys), Messages: messages}
}

// commit shows a message to claims.
func (s *store) commit(r *row) {
	s.open = slices.DeleteFunc(s.open, func(o *row) bool { return o == r })
	s.rows = append(s.rows, r)
	s.sort()
}

func (s *store) sort() {
	slices.SortStableFunc(s.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.dest, b.dest))
	})
}

// cursors is how far one relay has read its lanes. It reads forward: what it has let go of is found
// again only if it asks for a lane from its beginning.
type cursors map[relaycore.Lane]int64

// moveOn takes in what a claim has read: up to the last row that it returned, or all that there is, but
// not past the position of an open transaction.
func (c cursors) moveOn(s *store, lanes []relaycore.Lane, full bool, last int64) {
	to := s.position
	if full {
		to = last
	}
	for _, o := range s.open {
		to = min(to, o.position-1)
	}
	for _, l := range lanes {
		c[l] = max(c[l], to)
	}
}

// renew is the rule of leases: free the lanes of those whose lease has expired, give and take.
func (s *store) renew(node string, cmd relaycore.Renew, ttl, now relaycore.Time) relaycore.Event {
	if _, known := s.nodes[node]; !known && !cmd.Join {
		return relaycore.LeaseFailed{Lost: true, Err: errLost}
	}
	s.nodes[node] = now + ttl
	for other, until := range s.nodes {
		if until <= now || until > now+ttl { // the second is of a clock that has gone back since

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

// handedOver checks what a renewal has done to lanes and leases that were as given: a lane leaves a relay
// only when its lease has ended, and each new owner has an epoch of its own.
func (s *store) handedOver(lanes []laneRow, leases map[string]relaycore.Time, ttl, now relaycore.Time) error {
	for i, before := range lanes {
		after := s.lanes[i]
		if after.owner == before.owner || after.owner == "" {
			continue
		}
		until, leased := leases[before.owner]
		switch {
		case leased && until > now && until <= now+ttl:
			return fmt.Errorf("lane %d goes from %s to %s, whose lease lasts", i, before.owner, after.owner)
		case after.epoch <= before.epoch:
			return fmt.Errorf("lane %d goes to %s without a new epoch", i, after.owner)
		}
	}
	return nil
}

// ofOthers returns the rows that settlements are about in lanes that have changed hands.
func (s *store) ofOthers(list []relaycore.Settlement) (rows []*row) {
	for i := range list {
		m := list[i].Message
		if s.lanes[m.Lane.Number].epoch == m.Lane.Epoch {
			continue
		}
		if at := slices.IndexFunc(s.rows, func(r *row) bool { return r.is(m) }); at >= 0 {
			rows = append(rows, s.rows[at])
		}
	}
	return rows
}

// untouched checks that rows are still there.
func (s *store) untouched(rows []*row) error {
	for _, r := range rows {
		if !slices.Contains(s.rows, r) {
			return fmt.Errorf("a superseded relay settles %s", r.id)
		}
	}
	return nil
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

// is reports whether a message was read from the row.
func (r *row) is(m *relaycore.Message) bool {
	return r.position == m.Position && r.waits == m.Waiting && (!r.waits || r.dest == m.Dest)
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

// blocked reports whether a message that was never tried must follow its key to the waiting rows, whatever its
// destinations will be.
func (s *store) blocked(r *row) bool {
	follows := func(o *row) bool { return r.key != "" && o.topic == r.topic && o.key == r.key }
	return slices.ContainsFunc(s.rows, func(o *row) bool { return o.waits && !o.alone && follows(o) }) ||
		slices.ContainsFunc(s.dead, func(o *row) bool { return o.parks && follows(o) })
}

// claim is the rule of reading: waiting messages that are due first, then those that were never tried.
func (s *store) claim(cmd relaycore.Claim, read cursors, now relaycore.Time, dests []string) relaycore.Claimed {
	for lane := range read {
		if slices.Contains(cmd.Again, lane.Number) || !slices.Contains(cmd.Lanes, lane) {
			delete(read, lane)
		}
	}
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
			if lane, _ := epoch(r); !r.waits && free(r) && r.position > read[lane] {
				list = append(list, r)
			}
		}
	}
	limit := upTo(list, cmd.Limit, cmd.Bytes)
	full := len(list) >= limit
	list = list[:min(limit, len(list))]
	if !cmd.DueOnly && !(full && list[len(list)-1].waits) {
		last := int64(0)
		if full {
			last = list[len(list)-1].position
		}
		read.moveOn(s, cmd.Lanes, full, last)
	}
	messages := make([]relaycore.Message, len(list))
	for i, r := range list {
		messages[i] = describe(r, dests, now)
		messages[i].Lane, _ = epoch(r)
		messages[i].Blocked = !r.waits && s.blocked(r)
	}
	return relaycore.Claimed{Messages: messages, Full: full}
}

// upTo returns how many rows a claim returns at most: no further one once their payloads have so many bytes.
func upTo(list []*row, limit, bytes int) int {
	for i, r := range list {
		if bytes -= r.size; bytes <= 0 {
			return min(limit, i+1)
		}
	}
	return limit
}

// claimAhead is the rule of reading past the backlog of some tenants: what was never tried of the others,
// but nothing that has an earlier one of its key which stays behind.
func (s *store) claimAhead(cmd relaycore.ClaimAhead, now relaycore.Time, dests []string) relaycore.ClaimedAhead {
	found := relaycore.ClaimedAhead{Reached: cmd.Above}
	stays := make(map[[2]string]bool) // topics and keys
	var read []*row
	for _, r := range s.rows {
		lane := slices.IndexFunc(cmd.Lanes, func(l relaycore.Lane) bool { return l.Number == r.lane })
		_, held := slices.BinarySearch(cmd.Held, r.position)
		unit, left := [2]string{r.topic, r.key}, r.position <= cmd.Above || slices.Contains(cmd.Without, r.tenant)
		switch {
		case r.waits || held || lane < 0:
		case left || r.key != "" && stays[unit]:
			stays[unit] = true
		default:
			m := describe(r, dests, now)
			m.Lane, m.Blocked = cmd.Lanes[lane], s.blocked(r)
			found.Messages, read = append(found.Messages, m), append(read, r)
		}
		found.Reached = max(found.Reached, r.position)
		if len(found.Messages) == upTo(read, cmd.Limit, cmd.Bytes) {
			break
		}
	}
	return found
}

// describe returns what a claim tells of a row.
func describe(r *row, dests []string, now relaycore.Time) relaycore.Message {
	tag := *r
	m := relaycore.Message{
		Position: r.position, Dest: r.dest, Topic: r.topic, Key: r.key, Tenant: r.tenant, Attempts: r.attempts, Life: r.life,
		Size: relaycore.EmptySize + 100 + r.size, Waiting: r.waits, Tag: &tag,
	}
	if r.odd == malformed {
		m.Malformed = errRefused
		return m
	}
	if r.expires > 0 {
		m.Expired, m.ExpiresIn = r.expires <= now, max(0, r.expires-now)
	}
	if !r.waits {
		m.Routes = r.routesOf(dests)
	}
	if !r.waits && r.deliver > 0 {
		m.DelayFor = max(0, r.deliver-now)
	}
	return m
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
	var done []*row
	var dests [][]string
	for i := range list {
		st := &list[i]
		m := st.Message
		if l := s.lanes[m.Lane.Number]; l.epoch != m.Lane.Epoch {
			lost = append(lost, m.Lane.Number)
			continue
		}
		at := slices.IndexFunc(s.rows, func(r *row) bool { return r.is(m) })
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

func (s *store) apply(st *relaycore.Settlement, r *row, now relaycore.Time) {
	next := *r
	next.dest, next.waits = st.Message.Dest, true
	switch st.Outcome {
	case relaycore.Published:
		s.published[r.id+"@"+next.dest]++
		next.attempts, next.life, next.alone = 0, 0, false
		s.divide(next, st.To, now)
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

// put adds a waiting row, unless it is there already: without a due time if it is behind another one.
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
		back.waits, back.parks, back.attempts, back.life, back.due, back.requeued = true, false, 0, r.life+1, now, true
		back.alone = !r.parks
		s.put(back, now)
		return
	}
	r.parks, r.resolved = false, true
	s.follow(r, r.dest, now)
}

// left returns what is in the outbox and the waiting rows, or will be.
func (s *store) left() int { return len(s.rows) + len(s.open) + len(s.scheduled) }
