package pgstore

import (
	"fmt"

	"github.com/waybill-go/waybill/internal/sqlstore"
)

const (
	// addSagaSQL waits for another transaction that adds one with the key, and leaves the caller's
	// own usable if there is one.
	addSagaSQL = `
INSERT INTO {sagas} (` + sqlstore.AddSagaColumns + `)
SELECT $1::integer, $2::text, $3::text, $4::text, $5::text, $6::text, $8::text, $9::text, $10::text, 1, n.now, n.now,
       CASE WHEN $7::boolean THEN n.now END
  FROM (SELECT {clock}() AS now) n
    ON CONFLICT (key, saga, tenant) DO NOTHING`

	// updateSagaSQL is compare-and-set: of several that have read one version the first changes it.
	updateSagaSQL = `
UPDATE {sagas}
   SET version = version + 1, definition = $1::integer, status = $2::text, state = $3::text, data = $4::text, progress = $5::text,
       error = $6::text, changed_at = n.now, ended_at = CASE WHEN $7::boolean THEN n.now END
  FROM (SELECT {clock}() AS now) n
 WHERE number = $8::bigint AND version = $9::bigint`

	// sagaCountsSQL reads the rows of what has not ended, by the index on the status, and of the
	// others the index alone, where the table is vacuumed.
	sagaCountsSQL = `
SELECT saga, status, count(*), extract(epoch FROM {clock}() - min(changed_at))::float8
  FROM {sagas} WHERE status IN ('running', 'compensating', 'stuck') GROUP BY saga, status
UNION ALL
SELECT saga, status, count(*), 0 FROM {sagas} WHERE status IN ('completed', 'compensated') GROUP BY saga, status
 ORDER BY 1, 2`
)

// loggedSQL returns a statement that writes an instance by write, and its log, whose arguments
// begin with the given one.
func loggedSQL(write string, first int) string {
	entry := ""
	for i, kind := range [...]string{"text", "text", "text", "text", "text", "integer", "text", "text"} {
		entry += fmt.Sprintf(", $%d::%s", first+i, kind)
	}
	return `WITH s AS (` + write + `
 RETURNING number, version, changed_at
)
INSERT INTO {saga_log} (` + sqlstore.SagaLogColumns + `)
SELECT s.number, s.version, s.changed_at` + entry + ` FROM s
RETURNING number, version, at`
}

func sagaStatements(r func(sql string) string) sqlstore.SagaStatements {
	st := sqlstore.CommonSagaStatements(r)
	st.Add, st.Update = r(loggedSQL(addSagaSQL, 11)), r(loggedSQL(updateSagaSQL, 10))
	st.AddEntry, st.Written, st.Lock, st.Counts = "", "", st.Read+" FOR UPDATE", r(sagaCountsSQL)
	return st
}
