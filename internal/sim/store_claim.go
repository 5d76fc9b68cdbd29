package main

import (
	"cmp"
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// cursors is how far one relay has read its lanes. It reads forward: what it has dropped is found again only if
// it asks for a lane from its beginning.
type cursors map[relaycore.Lane]int64

// moveOn records what a claim has read of lanes: everything, or up to the last row that it returned, but not
// past the position of an open transaction.
func (c cursors) moveOn(s *store, lanes []relaycore.Lane, returned, more []*row) {
	for _, l := range lanes {
		of := func(r *row) bool { return !r.waits && r.lane == l.Number }
		to := s.position
		if slices.ContainsFunc(more, of) {
			to = 0
			for _, r := range returned {
				if of(r) {
					to = max(to, r.position)
				}
			}
		}
		for _, o := range s.open {
			to = min(to, o.position-1)
		}
		c[l] = max(c[l], to)
	}
}

// claim is the rule of reading: waiting messages that are due first, then those that were never tried. If there
// are more than fit, each store may choose: it returns those that first names, if it is given.
func (s *store) claim(cmd relaycore.Claim, read cursors, now relaycore.Time, dests []string, first func(*row) bool) relaycore.Claimed {
	cmd.Lanes = s.current(cmd.Lanes)
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
	if first != nil {
		rank := func(r *row) int {
			if first(r) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(list, func(a, b *row) int { return cmp.Compare(rank(a), rank(b)) })
	}
	limit := upTo(list, cmd.Limit, cmd.Bytes)
	full := len(list) >= limit
	list, more := list[:min(limit, len(list))], list[min(limit, len(list)):]
	if !cmd.DueOnly {
		read.moveOn(s, cmd.Lanes, list, more)
	}
	messages := make([]relaycore.Message, len(list))
	for i, r := range list {
		messages[i] = describe(r, dests, now)
		messages[i].Lane, _ = epoch(r)
		messages[i].Blocked = !r.waits && s.blocked(r)
	}
	return relaycore.Claimed{Messages: messages, Full: full}
}

// current returns the lanes that still have their epoch.
func (s *store) current(lanes []relaycore.Lane) []relaycore.Lane {
	return slices.DeleteFunc(slices.Clone(lanes), func(l relaycore.Lane) bool { return s.lanes[l.Number].epoch != l.Epoch })
}

// upTo returns how many rows a claim returns at most: no further one once their payloads reach bytes.
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
	cmd.Lanes = s.current(cmd.Lanes)
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

// describe returns what a claim contains for a row.
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

// isDue reports whether a waiting row may be read: it is due by itself, or behind the first that waits of its unit,
// which is due and has not failed, with nothing between that waits for its own time, and nothing before it that parks.
func (s *store) isDue(r *row, now relaycore.Time, free func(*row) bool) bool {
	if r.alone || r.key == "" || r.due <= now {
		return r.due <= now
	}
	if r.due < never {
		return false
	}
	var first *row
	for _, o := range s.rows {
		if !o.waits || o.alone || !sameUnit(o, r) || o.position >= r.position {
			continue
		}
		if first == nil {
			first = o
		}
		if o.due < never && (o.due > now || o.attempts > 0) {
			return false
		}
	}
	return first != nil && first.due <= now && free(first) && !slices.ContainsFunc(s.dead, func(d *row) bool {
		return d.parks && sameUnit(d, r) && d.position < r.position
	})
}
