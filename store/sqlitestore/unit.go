package sqlitestore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// A unit is what order is kept by: a destination, topic and key. What waits behind what is
// told by positions: a row of it waits behind the rows before it, but for those that wait
// alone, and behind the dead letters before it that park the unit.

// blockedSQL is the condition under which a row o of the outbox must follow its key to the
// waiting rows, whatever its destinations will be. Served by the partial indexes on units.
const blockedSQL = `(o.key <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.topic = o.topic AND w.key = o.key AND w.key <> '' AND NOT w.alone)
    OR EXISTS (SELECT 1 FROM {dead_letters} p WHERE p.topic = o.topic AND p.key = o.key AND p.parks)))`

// behindSQL is the condition that the row with the given alias is behind something in its
// unit. Served by the same indexes.
func behindSQL(alias, destination string) string {
	return fmt.Sprintf(`(%[1]s.key <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} e
             WHERE e.topic = %[1]s.topic AND e.key = %[1]s.key AND e.key <> '' AND NOT e.alone AND e.destination = %[2]s AND e.position < %[1]s.position)
    OR EXISTS (SELECT 1 FROM {dead_letters} p
             WHERE p.topic = %[1]s.topic AND p.key = %[1]s.key AND p.destination = %[2]s AND p.parks AND p.position < %[1]s.position)))`, alias, destination)
}

// promote lets the first waiting row of the unit k go if it is behind nothing any more.
func promote(k string) string {
	return `
UPDATE {outbox_waiting} AS w SET due_at = {now}
  FROM ` + k + `
 WHERE w.topic = k.topic AND w.key = k.key AND w.key <> '' AND NOT w.alone AND w.destination = k.destination AND w.due_at IS NULL
   AND w.position = (SELECT min(e.position) FROM {outbox_waiting} e
                      WHERE e.topic = k.topic AND e.key = k.key AND e.key <> '' AND NOT e.alone AND e.destination = k.destination)
   AND NOT EXISTS (SELECT 1 FROM {dead_letters} p
                    WHERE p.topic = k.topic AND p.key = k.key AND p.destination = k.destination AND p.parks AND p.position < w.position)`
}

var (
	promoteSQL = promote(`(SELECT $1 AS topic, $2 AS key, $3 AS destination) k`)

	// releaseSQL does it for the unit of a letter that parks it no more.
	releaseSQL = promote(`(SELECT topic, key, destination FROM {dead_letters} WHERE number = $1 AND origin = 'relay') k`)
)

// countParkedSQL counts the units that letters park, and what waits behind them.
const countParkedSQL = `
SELECT count(*), coalesce(sum((
    SELECT count(*) FROM {outbox_waiting} w
     WHERE w.topic = u.topic AND w.key = u.key AND w.key <> '' AND NOT w.alone AND w.destination = u.destination AND w.position > u.position)), 0)
  FROM (SELECT topic, key, destination, min(position) AS position FROM {dead_letters} WHERE parks GROUP BY topic, key, destination) u`

// CountParked implements [contract.Source].
func (s *Store) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	if len(lanes) == 0 {
		return 0, 0, nil
	}
	rows, err := s.core.DB.Query(ctx, s.sql.countParked)
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) { return struct{}{}, r.Scan(&keys, &messages) })
	return keys, messages, s.core.Kind(err)
}
