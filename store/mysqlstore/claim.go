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

// claimDueSQL reads waiting messages that are due: the heads of their keys, and what waits for itself alone. $2 are
// destinations that pause, $3 the positions that the caller holds, $5 single rows that it holds, $4 the lanes. Safe with several
// relays because each reads only lanes that it owns; served by the index on due_at.
const claimDueSQL = `
SELECT w.lane, w.position, w.destination, w.attempts, w.life, 0, NULL, (greatest(w.expires_at, 0) - {now}) / 1000.0, {w.message}
  FROM {outbox_waiting} w
 WHERE due_at <= {now} AND ` + ownsLaneOf + `w.lane) IN ($4) AND (destination IN ($2)) IS NOT TRUE AND (position IN ($3)) IS NOT TRUE
   AND (concat(position, '/', destination) IN ($5)) IS NOT TRUE
 ORDER BY due_at, position
 LIMIT $1`

// claimBehindSQL reads what is behind such heads, the leaders, in the order of its position, up to what waits for its own
// time: one that was requeued may come before it. {leaders} are selects of one key each (leaderSQL). The rows are
// chosen before any payload is read. It sums what stops a key, because MariaDB looks for a maximum from the first row again for
// each. Safe with several relays as claimDueSQL is.
const claimBehindSQL = `
SELECT w.lane, w.position, w.destination, w.attempts, w.life, 0, NULL, (greatest(w.expires_at, 0) - {now}) / 1000.0, {w.message}
  FROM (SELECT position, destination, free, sum(stops) OVER (PARTITION BY leader ORDER BY position ROWS UNBOUNDED PRECEDING) AS stopped FROM ({leaders}) l) f
  STRAIGHT_JOIN {outbox_waiting} w FORCE INDEX (PRIMARY) ON w.position = f.position AND w.destination = f.destination
 WHERE f.free AND f.stopped = 0 AND ` + ownsLaneOf + `w.lane) IN ($4) AND (w.position IN ($2)) IS NOT TRUE AND (concat(w.position, '/', w.destination) IN ($3)) IS NOT TRUE
 ORDER BY w.position
 LIMIT $1`

// leaderSQL reads the first $5 rows behind a leader, up to a dead letter that parks the rest; none if the leader is not the first
// of its key that waits: one before it may have been committed later, and wait longer. Served by the index on the unit,
// of which it reads what it returns, and other heads of the key.
const leaderSQL = `(SELECT {leader} AS leader, n.position, n.destination, n.due_at IS NULL AS free,
                           n.due_at IS NOT NULL AS stops
                      FROM {outbox_waiting} n FORCE INDEX (by_unit)
                     WHERE n.topic = {of_topic} AND n.{key} = {of_key} AND n.{key} <> '' AND NOT n.alone AND n.destination = {of_destination} AND n.position > {leader}
                       AND n.position < coalesce((SELECT min(p.position) FROM {dead_letters} p
                                                   WHERE p.parks = 1 AND p.topic = {of_topic} AND p.{key} = {of_key} AND p.destination = {of_destination}), 9223372036854775807)
                       AND {leader} = (SELECT e.position FROM {outbox_waiting} e FORCE INDEX (by_unit)
                                        WHERE e.topic = {of_topic} AND e.{key} = {of_key} AND e.{key} <> '' AND NOT e.alone AND e.destination = {of_destination}
                                        ORDER BY e.position LIMIT 1)
                       AND (n.due_at IS NULL OR n.attempts > 0 OR n.due_at > {now})
                     ORDER BY n.position LIMIT $5)`

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
// often, one more if req.Due is set, and one more if the head of a key is due.
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

// claimWaiting claims what is due, and the rest of the keys of it.
func (s *Store) claimWaiting(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	positions, single := req.HeldWaiting()
	claims, err := s.claimsOf(ctx, req, []contract.Claim{}, s.sql.claimDue, req.Limit, req.Paused, positions, laneNames(req.Lanes), single)
	if leaders := sqlstore.Leaders(claims); err == nil && len(leaders) > 0 && !req.Full(claims) {
		for i := range claims {
			single = append(single, fmt.Sprint(claims[i].Position, "/", claims[i].Destination))
		}
		limit := req.Limit - len(claims)
		share := max(sqlstore.LeastOfKey, limit/len(leaders))
		selects, args := []string{}, []any{limit, positions, single, laneNames(req.Lanes), share}
		for _, l := range leaders[:min(len(leaders), 1+limit/share)] {
			n := len(args)
			selects = append(selects, strings.NewReplacer("{leader}", strconv.FormatInt(l.Position, 10),
				"{of_topic}", numbered(n+1), "{of_key}", numbered(n+2), "{of_destination}", numbered(n+3)).Replace(s.sql.leader))
			args = append(args, l.Message.Address(), l.Message.Key, l.Destination)
		}
		claims, err = s.claimsOf(ctx, req, claims, strings.Replace(s.sql.claimBehind, "{leaders}", strings.Join(selects, " UNION ALL "), 1), args...)
	}
	for i := range claims {
		claims[i].Waiting = true
	}
	return claims, err
}

// claimsOf appends what a query finds.
func (s *Store) claimsOf(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim, query string, args ...any) ([]contract.Claim, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rows, err := s.core.DB.Query(ctx, query, args...)
	return sqlstore.NewClaimScanner(req.Lanes).Read(claims, req.Bytes, stop, rows, err)
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
	selects := make([]string, len(req.Lanes))
	for i, l := range req.Lanes {
		selects[i] = strings.NewReplacer("{lane_number}", strconv.Itoa(l.Number), "{lane_epoch}", strconv.FormatInt(l.Epoch, 10)).Replace(s.sql.lane)
	}
	query := strings.Replace(s.sql.claimReady, "{lanes}", strings.Join(selects, " UNION ALL "), 1)
	return s.claimsOf(ctx, req, claims, query, req.Limit-len(claims), req.Held, first)
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
