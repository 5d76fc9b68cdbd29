package mysqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ownsLaneOf begins a condition that holds in lanes which still have the epoch that the caller knows: it
// is followed by the lane and by laneNames of the caller's. A sub-select of one value, because as a join the
// planner could begin with it.
const ownsLaneOf = `(SELECT concat(r.lane, '/', r.epoch) FROM {relay_lanes} r WHERE r.lane = `

// claimWaitingSQL reads waiting messages that are due: the heads of their keys, and behind a
// head that has not failed since it was let go the rest of its key, in order, up to a dead
// letter that parks the rest, or a message that waits for its own time: one that was requeued may come before it.
// Only the first that waits of a key takes others along: one before it may have been committed later, and wait longer.
// A head that has failed is tried alone. $3 are the positions that the caller holds, $5 single rows that it holds,
// $4 the lanes. Safe with several relays because each reads only lanes that it owns; served by the indexes on due_at
// and on the unit.
//
// What is behind several heads of one key, up to a letter that parks it, is what is behind the first of
// them: that one is the leader, so that the rest of a key is read once and not by each head. Its reach, and
// how much of that is free, are computed by themselves: MySQL would look for a bound again with each row that it
// compares, and a window would store every row once more.
const claimWaitingSQL = `
WITH head AS (
    SELECT position, destination, topic, {key}, attempts, alone
      FROM {outbox_waiting} w
     WHERE due_at <= {now} AND ` + ownsLaneOf + `w.lane) IN ($4) AND (destination IN ($2)) IS NOT TRUE AND (position IN ($3)) IS NOT TRUE
       AND (concat(position, '/', destination) IN ($5)) IS NOT TRUE
     ORDER BY due_at, position
     LIMIT $1
), leader AS (
    SELECT topic, {key}, destination, barrier, min(position) AS position
      FROM (
        SELECT position, topic, {key}, destination, coalesce((
                SELECT min(p.position) FROM {dead_letters} p
                 WHERE p.parks = 1 AND p.topic = head.topic AND p.{key} = head.{key} AND p.destination = head.destination), 9223372036854775807) AS barrier
          FROM head
         WHERE {key} <> '' AND attempts = 0 AND NOT alone) h
     GROUP BY topic, {key}, destination, barrier
), reach AS (
    SELECT topic, {key}, destination, position, least(barrier, coalesce((
            SELECT n.position FROM {outbox_waiting} n
             WHERE n.topic = leader.topic AND n.{key} = leader.{key} AND n.{key} <> '' AND NOT n.alone AND n.destination = leader.destination AND n.position > leader.position
             ORDER BY n.position LIMIT 1 OFFSET $1), 9223372036854775807)) AS bound
      FROM leader
     WHERE position = (SELECT min(e.position) FROM {outbox_waiting} e
                        WHERE e.topic = leader.topic AND e.{key} = leader.{key} AND e.{key} <> '' AND NOT e.alone AND e.destination = leader.destination)
), free AS (
    SELECT topic, {key}, destination, position, least(bound, coalesce((
            SELECT n.position FROM {outbox_waiting} n FORCE INDEX (by_unit)
             WHERE n.topic = reach.topic AND n.{key} = reach.{key} AND n.{key} <> '' AND NOT n.alone AND n.destination = reach.destination
               AND n.position > reach.position AND n.position < reach.bound AND n.due_at IS NOT NULL AND (n.attempts > 0 OR n.due_at > {now})
             ORDER BY n.position LIMIT 1), 9223372036854775807)) AS bound
      FROM reach
), due AS (
    SELECT position, destination FROM head
    UNION
    SELECT f.position, f.destination
      FROM free r
      STRAIGHT_JOIN {outbox_waiting} f FORCE INDEX (by_unit) ON f.topic = r.topic AND f.{key} = r.{key} AND f.{key} <> '' AND NOT f.alone AND f.destination = r.destination
           AND f.position > r.position AND f.position < r.bound
     WHERE f.due_at IS NULL AND (f.position IN ($3)) IS NOT TRUE AND (concat(f.position, '/', f.destination) IN ($5)) IS NOT TRUE
)
SELECT w.lane, w.position, w.destination, w.attempts, w.life, 0, NULL, (greatest(w.expires_at, 0) - {now}) / 1000.0, {w.message}
  FROM due JOIN {outbox_waiting} w USING (position, destination)
 ORDER BY w.position
 LIMIT $1`

// claimReadySQL reads what was never tried in the order of its position, of each lane from its lowest position on: a
// transaction that commits late shows rows below those already read. So each claim walks over
// what is under way ($2), and no row is passed over. {lanes} are selects of one lane each
// (laneSQL); the rows are chosen before any payload is read. Safe with several relays because each reads only lanes that it owns;
// served by the index on (lane, position).
const claimReadySQL = `
SELECT o.lane, o.position, '', 0, 0,
       ` + blockedSQL + `,
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (greatest(o.expires_at, 0) - {now}) / 1000.0, {o.message}
  FROM (SELECT l.position FROM ({lanes}) l
         WHERE (l.position IN ($2)) IS NOT TRUE
         ORDER BY l.position
         LIMIT $1) l
  JOIN {outbox} o ON o.position = l.position
 ORDER BY o.position`

// laneSQL reads the first $3 positions of a lane. Nothing is read if the lane has another epoch by now. Served by
// the index alone.
const laneSQL = `(SELECT position FROM {outbox}
                   WHERE lane = {lane_number} AND EXISTS (SELECT 1 FROM {relay_lanes} WHERE lane = {lane_number} AND epoch = {lane_epoch})
                   ORDER BY position LIMIT $3)`

// ClaimMessages implements [contract.Source]: with one statement for what was never tried, most
// often, and one more if req.Due is set.
func (s *Store) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	claims := []contract.Claim{}
	if len(req.Lanes) == 0 {
		return claims, nil
	}
	if req.Due {
		var err error
		if claims, err = s.claimWaiting(ctx, req); err != nil {
			return nil, s.core.Kind(fmt.Errorf("claim waiting messages: %w", err))
		}
	}
	if req.Full(claims) || req.DueOnly {
		return claims, nil
	}
	claims, err := s.claimReady(ctx, req, claims)
	if err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	return claims, nil
}

func (s *Store) claimWaiting(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	positions, held := req.HeldWaiting()
	rows, err := s.core.DB.Query(ctx, s.sql.claimWaiting, req.Limit, req.Paused, positions, laneNames(req.Lanes), held)
	due, err := sqlstore.NewClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
	for i := range due {
		due[i].Waiting = true
	}
	return due, err
}

// claimReady appends to claims what it finds in the lanes. It looks at a part of each that suffices if what there is, and
// what is under way, is spread over them; if that is too little, it looks again at as much as there may be to take in one.
func (s *Store) claimReady(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim) ([]contract.Claim, error) {
	whole := req.Limit - len(claims) + len(req.Held)
	part := min(whole, leastOfLane+whole/len(req.Lanes))
	found, err := s.readLanes(ctx, req, claims, part)
	if err == nil && part < whole && !req.Full(found) && mayBeMore(found[len(claims):], part-len(req.Held)) {
		found, err = s.readLanes(ctx, req, claims, whole)
	}
	return found, err
}

// leastOfLane is how much of a lane a claim looks at, at least.
const leastOfLane = 30

// mayBeMore reports whether n messages or more were found in a lane, so that it may have been cut off there.
func mayBeMore(found []contract.Claim, n int) bool {
	if n <= 0 {
		return true
	}
	of := make(map[int]int)
	for i := range found {
		number := found[i].Lane.Number
		if of[number]++; of[number] == n {
			return true
		}
	}
	return false
}

// readLanes appends to claims what it finds among the first positions of each lane.
func (s *Store) readLanes(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim, first int) ([]contract.Claim, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	selects := make([]string, len(req.Lanes))
	for i, l := range req.Lanes {
		selects[i] = strings.NewReplacer("{lane_number}", strconv.Itoa(l.Number), "{lane_epoch}", strconv.FormatInt(l.Epoch, 10)).Replace(s.sql.lane)
	}
	query := strings.Replace(s.sql.claimReady, "{lanes}", strings.Join(selects, " UNION ALL "), 1)
	rows, err := s.core.DB.Query(ctx, query, req.Limit-len(claims), req.Held, first)
	return sqlstore.NewClaimScanner(req.Lanes).Read(claims, req.Bytes, stop, rows, err)
}

// laneNames returns lanes as ownsLaneOf names them.
func laneNames(lanes []contract.Lane) []string {
	list := make([]string, len(lanes))
	for i, l := range lanes {
		list[i] = fmt.Sprint(l.Number, "/", l.Epoch)
	}
	return list
}

func numbers(lanes []contract.Lane) []int {
	list := make([]int, len(lanes))
	for i, l := range lanes {
		list[i] = l.Number
	}
	return list
}
