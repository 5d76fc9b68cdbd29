package mysqlstore

import (
	"fmt"
	"strings"

	"github.com/waybill-go/waybill/internal/sqlstore"
)

// leaseColumns are what sqlstore reads of a key.
const leaseColumns = `{key}, lease_id, owner, token, attempts, processed, coalesce(coalesce(lease_until, due_at) > {now}, 0),
       coalesce(greatest(0, coalesce(lease_until, due_at) - {now}), 0) / 1000.0, first_seen, last_seen, lease_until, due_at, coalesce(payload_hash, '')`

// setIf returns assignments for columns: each gets its value if the condition holds, and stays
// as it is otherwise. The server makes them one after the other, or, in one of its modes, at
// the same time: the condition must be true or false for both.
func setIf(condition string, columns ...[2]string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = fmt.Sprintf("%[1]s = CASE WHEN %[3]s THEN %[2]s ELSE %[1]s END", c[0], c[1], condition)
	}
	return strings.Join(list, ",\n       ")
}

// mayBegin is the condition under which the request with the id $2 gets the key. Once the row
// has that id it goes by nothing else that is assigned before lease_until, the last one, but for
// due_at: there it may begin since that is past, and NULL says the same.
const mayBegin = `NOT processed AND coalesce(coalesce(lease_until, due_at) <= {now}, 1) AND ($5 = 0 OR attempts < $5 OR lease_id = $2)`

// usedUp is the condition under which mayBegin would be wrong: the row had the id before, from the
// same request, and has no attempts left. It locks the row, which stays as it is until the answer is read.
const usedUp = `coalesce((SELECT lease_id = $2 AND $5 > 0 AND attempts >= $5 FROM {inbox_leases} WHERE {key} = $1 FOR UPDATE), 0)`

// holds is the condition that $2 is the id of a lease that is neither released nor processed,
// until lease_until is assigned.
const holds = `lease_id = $2 AND lease_until IS NOT NULL`

// The statements about one key lock its row, also where they leave it as it is. Their time is
// that of their beginning: who was waited for may have written a later one. Served by the
// primary key.
var (
	beginLeaseSQL = `
INSERT INTO {inbox_leases} ({key}, lease_id, owner, token, attempts, max_attempts, payload_hash, first_seen, last_seen, lease_until)
SELECT $1, $2, $3, 1, 1, $5, $6, {now}, {now}, {now} + CAST($4 * 1000 AS SIGNED) FROM DUAL WHERE NOT ` + usedUp + `
ON DUPLICATE KEY UPDATE
       ` + setIf(mayBegin, [2]string{"lease_id", "$2"}, [2]string{"owner", "$3"}, [2]string{"token", "token + 1"},
		[2]string{"attempts", "attempts + 1"}, [2]string{"max_attempts", "$5"},
		[2]string{"payload_hash", "$6"}, [2]string{"due_at", "NULL"},
		[2]string{"last_seen", "greatest(last_seen, {now})"}, [2]string{"lease_until", "{now} + CAST($4 * 1000 AS SIGNED)"})

	settleLeaseSQL = `
UPDATE {inbox_leases}
   SET ` + setIf(holds, [2]string{"processed", "$3"}, [2]string{"attempts", "attempts - $4"},
		[2]string{"due_at", "{now} + CAST(nullif($5, 0) * 1000 AS SIGNED)"},
		[2]string{"last_seen", "greatest(last_seen, {now})"}, [2]string{"lease_until", "NULL"}) + `
 WHERE {key} = $1`

	renewLeaseSQL = `
UPDATE {inbox_leases}
   SET ` + setIf(holds, [2]string{"last_seen", "greatest(last_seen, {now})"}, [2]string{"lease_until", "{now} + CAST($3 * 1000 AS SIGNED)"}) + `
 WHERE {key} = $1`

	readLeaseSQL = `SELECT ` + leaseColumns + ` FROM {inbox_leases} WHERE {key} = $1`
)

// leaseStatements has none for many keys: there is no RETURNING that both servers know.
func leaseStatements(r func(sql string) string) sqlstore.LeaseStatements {
	return sqlstore.LeaseStatements{
		Begin: r(beginLeaseSQL), Settle: r(settleLeaseSQL), Renew: r(renewLeaseSQL), Read: r(readLeaseSQL),
	}
}
