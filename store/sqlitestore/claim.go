package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/relay"
)

// claimWaitingSQL reads waiting messages that are due: the heads of their keys, and behind a
// head that has not failed since it was let go the rest of its key, in order. A head that
// has failed is tried alone. Served by the partial indexes on due_at and on the unit.
const claimWaitingSQL = `
WITH head AS (
    SELECT position, destination, topic, key, attempts
      FROM {outbox_waiting}
     WHERE due_at <= {now} AND destination NOT IN (SELECT value FROM json_each($2))
     ORDER BY due_at, position
     LIMIT $1
), due AS (
    SELECT position, destination FROM head
    UNION
    SELECT f.position, f.destination
      FROM head h
      JOIN {outbox_waiting} f ON f.topic = h.topic AND f.key = h.key AND f.key <> '' AND f.destination = h.destination
           AND f.position > h.position
           AND f.position <= coalesce((SELECT l.position FROM {outbox_waiting} l
                WHERE l.topic = h.topic AND l.key = h.key AND l.key <> '' AND l.destination = h.destination AND l.position > h.position
                ORDER BY l.position LIMIT 1 OFFSET $1), 9223372036854775807)
     WHERE h.attempts = 0 AND f.due_at IS NULL
)
SELECT 0, w.position, w.destination, w.attempts, w.life, 0, NULL, coalesce(w.expires_at <= {now}, 0), {w.message}
  FROM due JOIN {outbox_waiting} w USING (position, destination)
 ORDER BY w.position
 LIMIT $1`

// claimReadySQL reads what was never tried, from the lowest position on: writers are one at
// a time, so no row appears below one that is visible.
const claimReadySQL = `
SELECT 0, o.position, '', 0, 0,
       o.key <> '' AND EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.topic = o.topic AND w.key = o.key AND w.key <> ''),
       CASE WHEN o.deliver_at > {now} THEN (o.deliver_at - {now}) / 1000.0 END,
       coalesce(o.expires_at <= {now}, 0), {o.message}
  FROM {outbox} o
 ORDER BY o.position
 LIMIT $1`

// ClaimMessages implements [relay.Source] with two statements.
func (s *Store) ClaimMessages(ctx context.Context, req relay.ClaimRequest) ([]relay.Claim, error) {
	if !slices.ContainsFunc(req.Lanes, func(l relay.Lane) bool { return l.Number == 0 }) {
		return []relay.Claim{}, nil
	}
	scan := sqlstore.ClaimScan(req.Lanes)
	rows, err := s.core.DB.Query(ctx, s.sql.claimWaiting, req.Limit, append([]string{}, req.Paused...))
	waiting, err := sqldb.Collect(rows, err, scan)
	if err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim waiting messages: %w", err))
	}
	for i := range waiting {
		waiting[i].Waiting = true
	}
	if len(waiting) == req.Limit {
		return waiting, nil
	}
	rows, err = s.core.DB.Query(ctx, s.sql.claimReady, req.Limit-len(waiting))
	ready, err := sqldb.Collect(rows, err, scan)
	if err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	return append(waiting, ready...), nil
}
