package main

import (
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// renew is the rule of leases: free the lanes of relays whose lease has expired, release lanes and take
// free ones.
func (s *store) renew(node string, cmd relaycore.Renew, ttl, now relaycore.Time) relaycore.Event {
	if _, known := s.nodes[node]; !known && !cmd.Join {
		return relaycore.LeaseFailed{Lost: true, Err: errLost}
	}
	s.nodes[node] = now + ttl
	for other, until := range s.nodes {
		if s.nodes[other] = min(until, now+ttl); until <= now { // it is later if the clock has gone back since
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

// handedOver compares lanes and leases with the given ones from before a renewal: a lane leaves a relay
// only when its lease has ended, and each new owner has an epoch of its own.
func (s *store) handedOver(lanes []laneRow, leases map[string]relaycore.Time, now relaycore.Time) error {
	for i, before := range lanes {
		after := s.lanes[i]
		if after.owner == before.owner || after.owner == "" {
			continue
		}
		until, leased := leases[before.owner]
		switch {
		case leased && until > now:
			return fmt.Errorf("lane %d goes from %s to %s, whose lease lasts", i, before.owner, after.owner)
		case after.epoch <= before.epoch:
			return fmt.Errorf("lane %d goes to %s without a new epoch", i, after.owner)
		}
	}
	return nil
}

// ofOthers returns the rows of a relay's settlements that are in lanes of others.
func (s *store) ofOthers(node string, list []relaycore.Settlement) (rows []*row) {
	for i := range list {
		m := list[i].Message
		if s.owns(node, m.Lane) {
			continue
		}
		if at := s.find(m); at >= 0 {
			rows = append(rows, s.rows[at])
		}
	}
	return rows
}

// untouched checks that rows still exist.
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
