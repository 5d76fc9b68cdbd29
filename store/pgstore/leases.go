package pgstore

import (
	"fmt"
	"strings"

	"github.com/waybill-go/waybill/internal/sqlstore"
)

// leaseColumns are what sqlstore reads of a key; nobody may begin it if its lease ends, or its wait,
// after now.
func leaseColumns(now string) string {
	return fmt.Sprintf(`key, lease_id, owner, token, attempts, processed, coalesce(coalesce(lease_until, due_at) > %s, false),
       coalesce(greatest(0, extract(epoch FROM coalesce(lease_until, due_at) - {clock}())) * 1000, 0)::float8,
       first_seen, last_seen, lease_until, due_at, coalesce(payload_hash, '')`, now)
}

// setIf returns assignments for columns of the row l: each gets its value if the condition
// holds, and stays as it is otherwise.
func setIf(condition string, columns ...[2]string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = fmt.Sprintf("%[1]s = CASE WHEN %[3]s THEN %[2]s ELSE l.%[1]s END", c[0], c[1], condition)
	}
	return strings.Join(list, ",\n       ")
}

// mayBegin is the condition under which a request, the row excluded, gets the key of row l.
// excluded.last_seen is the time of the statement, so that it is one time in all columns; who
// was waited for may have written a later one.
const mayBegin = `(NOT l.processed AND coalesce(coalesce(l.lease_until, l.due_at) <= excluded.last_seen, true)
        AND (excluded.max_attempts = 0 OR l.attempts < excluded.max_attempts))`

// beginLeaseSQL answers for what is processed, or somebody has, or waits, as of its snapshot, and
// writes nothing there. All other keys are inserted, in their order, or found inserted: then the row
// is locked, and its latest version decides. Who comes too late writes that version again, and
// thereby returns it: a statement that left it alone could only return the one of its snapshot.
// Served by the primary key.
func beginLeaseSQL(asked string) string {
	return `
WITH now AS MATERIALIZED (
    SELECT {clock}() AS at
), asked AS MATERIALIZED (
    SELECT * FROM ` + asked + ` AS a(key, lease_id, owner, ttl, max_attempts, payload_hash)
), taken AS (
    SELECT l.* FROM asked a CROSS JOIN LATERAL (SELECT * FROM {inbox_leases} WHERE key = a.key LIMIT 1) l
     WHERE l.processed OR coalesce(l.lease_until, l.due_at) > (SELECT at FROM now)
), begun AS (
    INSERT INTO {inbox_leases} AS l (key, lease_id, owner, token, attempts, max_attempts, payload_hash, first_seen, last_seen, lease_until)
    SELECT a.key, a.lease_id, a.owner, 1, 1, a.max_attempts, a.payload_hash, now.at, now.at, now.at + a.ttl * interval '1 millisecond'
      FROM asked a CROSS JOIN now
     WHERE NOT EXISTS (SELECT 1 FROM taken t WHERE t.key = a.key)
     ORDER BY a.key COLLATE "C"
    ON CONFLICT (key) DO UPDATE
   SET ` + setIf(mayBegin,
		[2]string{"lease_id", "excluded.lease_id"}, [2]string{"owner", "excluded.owner"},
		[2]string{"token", "l.token + 1"}, [2]string{"attempts", "l.attempts + 1"}, [2]string{"max_attempts", "excluded.max_attempts"},
		[2]string{"payload_hash", "excluded.payload_hash"}, [2]string{"due_at", "NULL"},
		[2]string{"last_seen", "greatest(l.last_seen, excluded.last_seen)"}, [2]string{"lease_until", "excluded.lease_until"}) + `
    RETURNING *
)
SELECT ` + leaseColumns(`(SELECT at FROM now)`) + ` FROM (SELECT * FROM taken UNION ALL SELECT * FROM begun) l`
}

// What a request, or several, ask for. The plan for one is made once: for an array the server
// makes it anew each time, to look at its length.
const (
	askedOne = `(VALUES ($1::text, $2::text, $3::text, $4::float8, $5::int, $6::text))`
	askedAll = `unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::int[], $6::text[])`
)

// holds is the condition that $2 is the id of the lease of row l, which is neither released nor
// processed.
const holds = `(l.lease_id = $2 AND l.lease_until IS NOT NULL)`

// The statements about one lease wait for who has locked the row, and see what that one wrote.
// A lease that was lost changes nothing: the row is written as it is, to be returned.
var (
	settleLeaseSQL = `
UPDATE {inbox_leases} l
   SET ` + setIf(holds, [2]string{"processed", "$3"}, [2]string{"attempts", "l.attempts - $4::int"},
		[2]string{"last_seen", "greatest(l.last_seen, (SELECT {clock}()))"}, [2]string{"lease_until", "NULL"},
		[2]string{"due_at", "(SELECT {clock}()) + nullif($5::float8, 0) * interval '1 millisecond'"}) + `
 WHERE l.key = $1
RETURNING ` + leaseColumns(`(SELECT {clock}())`)

	renewLeaseSQL = `
UPDATE {inbox_leases} l
   SET ` + setIf(holds, [2]string{"last_seen", "greatest(l.last_seen, n.at)"}, [2]string{"lease_until", "n.at + $3 * interval '1 millisecond'"}) + `
  FROM (SELECT {clock}() AS at) n
 WHERE l.key = $1
RETURNING ` + leaseColumns(`n.at`)
)

// markLeasesSQL locks the rows in the order of their keys before it changes them.
var markLeasesSQL = `
WITH held AS (
    SELECT l.key AS held_key, a.lease_id AS held_id FROM (
        SELECT * FROM unnest($1::text[], $2::text[]) AS a(key, lease_id) ORDER BY a.key COLLATE "C") a
     CROSS JOIN LATERAL (SELECT key FROM {inbox_leases} WHERE key = a.key LIMIT 1 FOR UPDATE) l
)
UPDATE {inbox_leases} l
   SET ` + setIf(`(l.lease_id = held_id AND l.lease_until IS NOT NULL)`, [2]string{"processed", "true"},
	[2]string{"last_seen", "greatest(l.last_seen, (SELECT {clock}()))"}, [2]string{"lease_until", "NULL"}) + `
  FROM held
 WHERE l.key = held_key
RETURNING ` + leaseColumns(`(SELECT {clock}())`)

var readLeaseSQL = `SELECT ` + leaseColumns(`(SELECT {clock}())`) + ` FROM {inbox_leases} WHERE key = $1`

func leaseStatements(r func(sql string) string) sqlstore.LeaseStatements {
	return sqlstore.LeaseStatements{
		Returns: true, Begin: r(beginLeaseSQL(askedOne)), BeginAll: r(beginLeaseSQL(askedAll)), Settle: r(settleLeaseSQL), Renew: r(renewLeaseSQL),
		MarkAll: r(markLeasesSQL), Read: r(readLeaseSQL),
	}
}
