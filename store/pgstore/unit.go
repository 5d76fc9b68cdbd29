package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// A unit is what order is kept by: a destination, topic and key. What waits behind what is
// told by positions: a row of it waits behind the rows before it, but for those that wait
// alone, and behind the dead letters before it that park the unit.

// The conditions below ask for the first row of a unit in the order of its index. As EXISTS,
// for any row of it, they would be answered by reading the whole table where the statistics
// say that most rows are of one unit.

// blockedSQL is the condition under which messages of a topic and key, i, must follow their
// key to the waiting rows, whatever their destinations will be. Served by the partial indexes
// on the units of the waiting rows and of the letters that park theirs.
const blockedSQL = `(
    (SELECT w.position FROM {outbox_waiting} w WHERE w.topic = i.topic AND w.key = i.key AND w.key <> '' AND NOT w.alone
      ORDER BY w.destination, w.position LIMIT 1) IS NOT NULL
    OR (SELECT p.number FROM {dead_letters} p WHERE p.topic = i.topic AND p.key = i.key AND p.parks
         ORDER BY p.destination, p.position LIMIT 1) IS NOT NULL)`

// behindSQL is the condition that the row with the given alias is behind something in its
// unit. Served by the same indexes.
func behindSQL(alias, destination string) string {
	return fmt.Sprintf(`(%[1]s.key <> '' AND (
    (SELECT e.position FROM {outbox_waiting} e
      WHERE e.topic = %[1]s.topic AND e.key = %[1]s.key AND e.key <> '' AND NOT e.alone AND e.destination = %[2]s AND e.position < %[1]s.position
      ORDER BY e.position LIMIT 1) IS NOT NULL
    OR (SELECT p.number FROM {dead_letters} p
         WHERE p.topic = %[1]s.topic AND p.key = %[1]s.key AND p.destination = %[2]s AND p.parks AND p.position < %[1]s.position
         ORDER BY p.position LIMIT 1) IS NOT NULL))`, alias, destination)
}

const unitInput = `(SELECT DISTINCT * FROM unnest($1::text[], $2::text[], $3::text[]) AS k(topic, key, destination)) k`

// holdLettersSQL keeps the letters that park the given units as they are until the
// transaction ends. One that is being released meanwhile is waited for: later statements see
// it gone, or the release, which comes after, sees what they have left behind it. In the
// order of numbers, against deadlocks with other relays. Served by the partial index on the
// units that letters park.
const holdLettersSQL = `
SELECT p.number FROM ` + unitInput + `
  JOIN {dead_letters} p ON p.topic = k.topic AND p.key = k.key AND p.destination = k.destination AND p.parks
 ORDER BY p.number
   FOR SHARE OF p`

// promote lets the first waiting row of each unit of k go if it is behind nothing any more.
func promote(k string) string {
	return `
UPDATE {outbox_waiting} w SET due_at = {clock}()
  FROM ` + k + `
 WHERE w.topic = k.topic AND w.key = k.key AND w.key <> '' AND NOT w.alone AND w.destination = k.destination AND w.due_at IS NULL
   AND w.position = (SELECT min(e.position) FROM {outbox_waiting} e
                      WHERE e.topic = k.topic AND e.key = k.key AND e.key <> '' AND NOT e.alone AND e.destination = k.destination)
   AND (SELECT p.number FROM {dead_letters} p
         WHERE p.topic = k.topic AND p.key = k.key AND p.destination = k.destination AND p.parks AND p.position < w.position
         ORDER BY p.position LIMIT 1) IS NULL`
}

var (
	promoteSQL = promote(unitInput)

	// releaseSQL does it for the unit of a letter that parks it no more. It is a statement of
	// its own, so that it sees what was put behind the letter until that could be changed.
	releaseSQL = promote(`(SELECT topic, key, destination FROM {dead_letters} WHERE number = $1 AND origin = 'relay') k`)
)

// countParkedSQL counts the units that letters of the given lanes park, and what waits behind
// them. It reads two partial indexes only: that of the letters as a whole, and of the waiting
// rows those of the parked units.
const countParkedSQL = `
SELECT count(*), coalesce(sum(b.behind), 0)::bigint
  FROM (SELECT p.topic, p.key, p.destination, min(p.position) AS position
          FROM {dead_letters} p WHERE p.parks AND p.lane = ANY ($1::int[])
         GROUP BY p.topic, p.key, p.destination) u
 CROSS JOIN LATERAL (
    SELECT count(*) AS behind FROM {outbox_waiting} w
     WHERE w.topic = u.topic AND w.key = u.key AND w.key <> '' AND NOT w.alone AND w.destination = u.destination AND w.position > u.position) b`

// CountParked implements [contract.Source].
func (s *Store[Tx]) CountParked(ctx context.Context, lanes []contract.Lane) (keys, messages int, err error) {
	numbers := column(lanes, func(l contract.Lane) int { return l.Number })
	rows, err := s.core.DB.Query(ctx, s.sql.countParked, numbers)
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) { return struct{}{}, r.Scan(&keys, &messages) })
	return keys, messages, s.core.Kind(err)
}
