package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ownsLane follows a condition: the one lane still has the epoch that is given next.
const ownsLane = ` AND (SELECT epoch FROM {relay_lanes} WHERE lane = 0) = `

var leastOfKey = strconv.Itoa(sqlstore.LeastOfKey)

// claimWaitingSQL reads waiting messages that are due: the heads of their keys, and behind a
// head that has not failed since it was let go the rest of its key, in order, up to a dead
// letter that parks the rest, or a message that waits for its own time: one that was requeued may come before it.
// Only the first that waits of a key takes others along.
// A head that has failed is tried alone. $3 are the positions that the caller holds, $4 single rows that it holds,
// $5 the epoch of the lane. Served by the partial indexes on due_at and on the unit.
//
// What is behind several heads of one key, up to a letter that parks it, is what is behind the first of
// them: that one is the leader, so that the rest of a key is read once and not by each head.
// Of each key a claim reads the share that its limit has room for.
// CROSS JOIN keeps the planner from reading the leaders for each row that waits.
var claimWaitingSQL = `
WITH head AS (
    SELECT position, destination, topic, key, attempts, alone
      FROM {outbox_waiting}
     WHERE due_at <= {now}` + ownsLane + `$5 AND destination NOT IN (SELECT value FROM json_each($2))
       AND position NOT IN (SELECT value FROM json_each($3)) AND position || '/' || destination NOT IN (SELECT value FROM json_each($4))
     ORDER BY due_at, position
     LIMIT $1
), leader AS (
    SELECT topic, key, destination, barrier, min(position) AS position
      FROM (
        SELECT position, topic, key, destination, coalesce((
                SELECT min(p.position) FROM {dead_letters} p
                 WHERE p.topic = head.topic AND p.key = head.key AND p.destination = head.destination AND p.parks), 9223372036854775807) AS barrier
          FROM head
         WHERE key <> '' AND attempts = 0 AND NOT alone)
     GROUP BY topic, key, destination, barrier
), due AS (
    SELECT position, destination FROM head
    UNION ALL
    SELECT position, destination
      FROM (
        SELECT f.position, f.destination, f.due_at, max(f.due_at IS NOT NULL AND (f.due_at > {now} OR f.attempts > 0))
                   OVER (PARTITION BY l.topic, l.key, l.destination, l.position ORDER BY f.position) AS behind
          FROM leader l
         CROSS JOIN {outbox_waiting} f ON f.topic = l.topic AND f.key = l.key AND f.key <> '' AND NOT f.alone AND f.destination = l.destination
               AND f.position > l.position
               AND f.position < min(l.barrier, coalesce((SELECT n.position FROM {outbox_waiting} n
                    WHERE n.topic = l.topic AND n.key = l.key AND n.key <> '' AND NOT n.alone AND n.destination = l.destination AND n.position > l.position
                    ORDER BY n.position LIMIT 1 OFFSET (SELECT max(` + leastOfKey + `, $1 / max(count(*), 1)) FROM leader)), 9223372036854775807))
         WHERE l.position = (SELECT min(e.position) FROM {outbox_waiting} e
                WHERE e.topic = l.topic AND e.key = l.key AND e.key <> '' AND NOT e.alone AND e.destination = l.destination))
     WHERE due_at IS NULL AND NOT behind AND position NOT IN (SELECT value FROM json_each($3))
       AND position || '/' || destination NOT IN (SELECT value FROM json_each($4))
)
SELECT 0, w.position, w.destination, w.attempts, w.life, 0, NULL, (w.expires_at - {now}) / 1000.0, {w.message}
  FROM (SELECT position, destination FROM due ORDER BY position LIMIT $1)
  JOIN {outbox_waiting} w USING (position, destination)
 ORDER BY w.position`

// claimReadySQL reads what was never tried, from the lowest position on: writers are one at
// a time, so no row appears below one that is visible. $2 are the positions in flight, $3 is the epoch of the lane.
const claimReadySQL = `
SELECT 0, o.position, '', 0, 0,
       ` + blockedSQL + `,
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       (o.expires_at - {now}) / 1000.0, {o.message}
  FROM {outbox} o
 WHERE o.position NOT IN (SELECT value FROM json_each($2))` + ownsLane + `$3
 ORDER BY o.position
 LIMIT $1`

// ClaimMessages implements [contract.Source] with a statement, and one more if req.Due is set.
func (s *Store) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	claims := []contract.Claim{}
	epoch, mine := epochIn(req.Lanes)
	if !mine {
		return claims, nil
	}
	scanner, held := sqlstore.NewClaimScanner(req.Lanes), append([]int64{}, req.Held...)
	if req.Due {
		positions, single := req.HeldWaiting()
		rows, err := s.core.DB.Query(ctx, s.sql.claimWaiting, req.Limit, append([]string{}, req.Paused...), positions, single, epoch)
		if claims, err = scanner.Read(claims, req.Bytes, nil, rows, err); err != nil {
			return nil, s.core.Kind(fmt.Errorf("claim waiting messages: %w", err))
		}
	}
	for i := range claims {
		claims[i].Waiting = true
	}
	if req.Full(claims) || req.DueOnly {
		return claims, nil
	}
	rows, err := s.core.DB.Query(ctx, s.sql.claimReady, req.Limit-len(claims), held, epoch)
	if claims, err = scanner.Read(claims, req.Bytes, nil, rows, err); err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	return claims, nil
}

// epochIn returns the epoch of the one lane, if it is among some.
func epochIn(lanes []contract.Lane) (epoch int64, found bool) {
	i := slices.IndexFunc(lanes, func(l contract.Lane) bool { return l.Number == 0 })
	if i < 0 {
		return 0, false
	}
	return lanes[i].Epoch, true
}
