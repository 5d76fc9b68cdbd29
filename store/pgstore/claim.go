package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/relay"
)

// claimWaitingSQL reads waiting messages that are due: the heads of their keys, and behind
// a head that has not failed since it was let go the rest of its key, in order. A head that
// has failed is tried alone. Safe with several relays because each reads only lanes that it
// owns; served by the partial index on (lane, due_at) and the one on (topic, key, …).
const claimWaitingSQL = `
WITH head AS (
    SELECT h.*
      FROM unnest($1::int[]) AS l(lane)
     CROSS JOIN LATERAL (
        SELECT w.position, w.destination, w.topic, w.key, w.attempts
          FROM {outbox_waiting} w
         WHERE w.lane = l.lane AND w.due_at <= (SELECT {clock}()) AND w.destination <> ALL ($3::text[])
         ORDER BY w.due_at, w.position
         LIMIT $2) h
     LIMIT $2
), due AS (
    SELECT position, destination FROM head
    UNION
    SELECT f.position, f.destination
      FROM head h
     CROSS JOIN LATERAL (
        SELECT w.position, w.destination
          FROM {outbox_waiting} w
         WHERE h.key <> '' AND h.attempts = 0 AND w.key <> '' AND w.due_at IS NULL
           AND w.topic = h.topic AND w.key = h.key AND w.destination = h.destination AND w.position > h.position
         ORDER BY w.position
         LIMIT $2) f
)
SELECT w.lane, w.position, w.destination, w.attempts, w.life, false AS blocked, NULL::float8 AS delay_ms,
       coalesce(w.expires_at <= (SELECT {clock}()), false) AS expired, {w.message}
  FROM due JOIN {outbox_waiting} w USING (position, destination)
 ORDER BY w.position
 LIMIT $2`

// claimReadySQL reads what was never tried, lane by lane until the limit is reached, from
// each lane's low-water mark on: not from where the last claim ended, because a transaction
// that commits late shows rows with lower positions. Served by the primary key.
const claimReadySQL = `
SELECT o.lane, o.position, '' AS destination, 0 AS attempts, 0 AS life,
       o.key <> '' AND EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.topic = o.topic AND w.key = o.key AND w.key <> '') AS blocked,
       CASE WHEN o.deliver_at > (SELECT {clock}()) THEN extract(epoch FROM o.deliver_at - (SELECT {clock}())) * 1000 END::float8 AS delay_ms,
       coalesce(o.expires_at <= (SELECT {clock}()), false) AS expired, {o.message}
  FROM unnest($1::int[], $2::bigint[]) AS l(lane, mark)
 CROSS JOIN LATERAL (
    SELECT * FROM {outbox} o WHERE o.lane = l.lane AND o.position > l.mark ORDER BY o.position LIMIT $3) o
 LIMIT $3`

// ClaimMessages implements [relay.Source] with two statements.
func (s *Store[Tx]) ClaimMessages(ctx context.Context, req relay.ClaimRequest) (claims []relay.Claim, err error) {
	if len(req.Lanes) == 0 {
		return []relay.Claim{}, nil
	}
	err = s.db.run(ctx, func(conn sqldb.Conn) (err error) {
		claims, err = s.claim(ctx, conn, req)
		return err
	})
	if err == nil {
		err = s.marks.advance(ctx, s.openWriters)
	}
	if err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	return claims, nil
}

func (s *Store[Tx]) claim(ctx context.Context, conn sqldb.Conn, req relay.ClaimRequest) ([]relay.Claim, error) {
	numbers := make([]int, len(req.Lanes))
	for i, l := range req.Lanes {
		numbers[i] = l.Number
	}
	scan := sqlstore.ClaimScan(req.Lanes)
	rows, err := conn.Query(ctx, s.sql.claimWaiting, numbers, req.Limit, append([]string{}, req.Paused...))
	waiting, err := sqldb.Collect(rows, err, scan)
	if err != nil || len(waiting) == req.Limit {
		return asWaiting(waiting), err
	}
	limit := req.Limit - len(waiting)
	rows, err = conn.Query(ctx, s.sql.claimReady, numbers, s.marks.of(req.Lanes), limit)
	ready, err := sqldb.Collect(rows, err, scan)
	if err != nil {
		return nil, err
	}
	s.marks.claimed(req.Lanes, ready, limit)
	return append(asWaiting(waiting), ready...), nil
}

func asWaiting(claims []relay.Claim) []relay.Claim {
	for i := range claims {
		claims[i].Waiting = true
	}
	return claims
}
