package mysqlstore

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
// waiting rows, whatever its destinations will be. Served by the indexes on units.
const blockedSQL = `(o.{key} <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.topic = o.topic AND w.{key} = o.{key} AND NOT w.alone)
    OR EXISTS (SELECT 1 FROM {dead_letters} p WHERE p.parks = 1 AND p.topic = o.topic AND p.{key} = o.{key})))`

// behindSQL is the condition that the row with the given alias is behind something in its
// unit. Served by the same indexes.
func behindSQL(alias, destination string) string {
	return fmt.Sprintf(`(%[1]s.{key} <> '' AND (
    EXISTS (SELECT 1 FROM {outbox_waiting} e
             WHERE e.topic = %[1]s.topic AND e.{key} = %[1]s.{key} AND NOT e.alone AND e.destination = %[2]s AND e.position < %[1]s.position)
    OR EXISTS (SELECT 1 FROM {dead_letters} p
             WHERE p.parks = 1 AND p.topic = %[1]s.topic AND p.{key} = %[1]s.{key} AND p.destination = %[2]s AND p.position < %[1]s.position)))`, alias, destination)
}

// holdLettersSQL keeps the letters that park a unit as they are until the transaction ends. One
// that is being released meanwhile is waited for: later statements see it gone, or the
// release, which comes after, sees what they have left behind it.
const holdLettersSQL = `
SELECT number FROM {dead_letters} FORCE INDEX (by_unit)
 WHERE parks = 1 AND topic = $1 AND {key} = $2 AND destination = $3
 ORDER BY number
  LOCK IN SHARE MODE`

// promote lets the first waiting row of a unit go if it is behind nothing any more. from
// reads the unit's rows e; its LIMIT makes the server read it before it updates the table.
func promote(from string) string {
	return `
UPDATE (SELECT e.position, e.destination ` + from + ` ORDER BY e.position LIMIT 1) k
  STRAIGHT_JOIN {outbox_waiting} w FORCE INDEX (PRIMARY) ON w.position = k.position AND w.destination = k.destination
   SET w.due_at = {now}
 WHERE w.due_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM {dead_letters} p
                    WHERE p.parks = 1 AND p.topic = w.topic AND p.{key} = w.{key} AND p.destination = w.destination AND p.position < w.position)`
}

var (
	promoteSQL = promote(`
          FROM {outbox_waiting} e
         WHERE e.topic = $1 AND e.{key} = $2 AND e.{key} <> '' AND e.destination = $3 AND NOT e.alone`)

	// releaseSQL does it for the unit of a letter that parks it no more.
	releaseSQL = promote(`
          FROM {dead_letters} d
          JOIN {outbox_waiting} e ON e.topic = d.topic AND e.{key} = d.{key} AND e.{key} <> '' AND e.destination = d.destination AND NOT e.alone
         WHERE d.number = $1 AND d.origin = 'relay'`)
)

// countParkedSQL counts the units that letters of the given lanes park, and what waits behind
// them.
const countParkedSQL = `
SELECT count(*), coalesce(sum((
    SELECT count(*) FROM {outbox_waiting} w
     WHERE w.topic = u.topic AND w.{key} = u.{key} AND w.{key} <> '' AND NOT w.alone AND w.destination = u.destination AND w.position > u.position)), 0)
  FROM (SELECT topic, {key}, destination, min(position) AS position
          FROM {dead_letters} WHERE parks = 1 AND lane IN ($1) GROUP BY topic, {key}, destination) u`

// CountParked implements [contract.Source].
func (s *Store) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	rows, err := s.core.DB.Query(ctx, s.sql.countParked, numbers(lanes))
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) { return struct{}{}, r.Scan(&keys, &messages) })
	return keys, messages, s.core.Kind(err)
}
