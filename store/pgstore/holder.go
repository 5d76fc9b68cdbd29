package pgstore

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// HolderKind says what a [Holder] is.
type HolderKind string

// The kinds of holders.
const (
	HolderSession  HolderKind = "session"              // an open transaction
	HolderPrepared HolderKind = "prepared transaction" // of a two-phase commit
	HolderSlot     HolderKind = "replication slot"     // physical or logical
	HolderStandby  HolderKind = "standby"              // with hot_standby_feedback
)

// Holder is something that has been open for long: while it is, dead rows stay, because it
// might still look at them.
type Holder struct {
	Kind HolderKind

	// PID is the server process of a session or standby; 0 for the others.
	PID int

	// Name is the application's name, the global id of a prepared transaction, or that of a slot.
	Name string

	// User is whose it is; "" for a slot.
	User string

	// State is what a session is doing, such as "idle in transaction".
	State string

	// Age is how long the transaction has been open; 0 for slots and standbys, which have none.
	Age time.Duration

	// HoldsRows says that dead rows of the whole database stay because of it; Transactions is
	// how many transactions have begun since the one from which on they do.
	HoldsRows    bool
	Transactions int64

	// Enqueued says that the transaction has written to the outbox and not yet ended: nobody
	// sees its messages, and relays must look for them again and again.
	Enqueued bool

	// CatalogOnly says that a slot keeps rows of the server's own tables only.
	CatalogOnly bool

	// Query is the beginning of the session's last statement up to the first value in it,
	// since values may be secrets; and at most 60 characters.
	Query string
}

// holdersSQL reads views only. A session, or prepared transaction, of another database does
// not hold up the vacuum of ours; slots and standbys have no database in this respect. An
// enqueue shows as a ROW EXCLUSIVE lock on the outbox, which relays take for the length of a
// statement as well; the locks of a prepared transaction have no pid, and one of them is on its
// own id.
const holdersSQL = `
WITH writer AS (
    SELECT DISTINCT pid, virtualtransaction FROM pg_locks
     WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
       AND relation = $1::text::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), holder AS (
    SELECT 'session' AS kind, a.pid, coalesce(a.application_name, '') AS name, a.usename::text AS owner, coalesce(a.state, '') AS state,
           extract(epoch FROM clock_timestamp() - a.xact_start)::float8 * 1000 AS age_ms,
           greatest(age(a.backend_xmin), age(a.backend_xid)) AS xacts,
           a.pid IN (SELECT pid FROM writer) AS enqueued, false AS catalog_only, coalesce(a.query, '') AS query
      FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
       AND a.xact_start <= clock_timestamp() - $2 * interval '1 millisecond'
    UNION ALL
    SELECT 'prepared transaction', 0, p.gid, p.owner::text, '',
           extract(epoch FROM clock_timestamp() - p.prepared)::float8 * 1000, age(p.transaction),
           p.transaction IN (SELECT l.transactionid FROM pg_locks l JOIN writer w USING (virtualtransaction)
                              WHERE l.locktype = 'transactionid' AND l.pid IS NULL AND w.pid IS NULL), false, ''
      FROM pg_prepared_xacts p
     WHERE p.database = current_database() AND p.prepared <= clock_timestamp() - $2 * interval '1 millisecond'
    UNION ALL
    SELECT 'replication slot', 0, s.slot_name::text, '', CASE WHEN s.active THEN 'active' ELSE 'inactive' END,
           0, greatest(age(s.xmin), age(s.catalog_xmin)), false, s.xmin IS NULL, ''
      FROM pg_replication_slots s
     WHERE greatest(age(s.xmin), age(s.catalog_xmin)) >= $3
    UNION ALL
    SELECT 'standby', r.pid, coalesce(r.application_name, ''), r.usename::text, coalesce(r.state, ''), 0, age(r.backend_xmin), false, false, ''
      FROM pg_stat_replication r
     WHERE age(r.backend_xmin) >= $3
)
SELECT kind, pid, name, coalesce(owner, ''), state, age_ms, xacts IS NOT NULL, coalesce(xacts, 0)::bigint, enqueued, catalog_only, query
  FROM holder ORDER BY age_ms DESC, xacts DESC`

// Holders returns the transactions of this database that have been open for at least age,
// and the replication slots and standbys that keep rows from before the last transactions,
// longest first; an empty slice if there are none. Sessions of other roles are left out
// unless the role may see them (pg_read_all_stats, or pg_monitor).
func (s *Store[Tx]) Holders(ctx context.Context, age time.Duration, transactions int64) ([]Holder, error) {
	rows, err := s.core.DB.Query(ctx, holdersSQL, s.names.render("{outbox}"), sqlstore.Millis(age), transactions)
	holders, err := sqldb.Collect(rows, err, scanHolder)
	return holders, s.core.Kind(err)
}

func scanHolder(r sqldb.Rows) (h Holder, err error) {
	var kind, query string
	var millis float64
	err = r.Scan(&kind, &h.PID, &h.Name, &h.User, &h.State, &millis, &h.HoldsRows, &h.Transactions, &h.Enqueued, &h.CatalogOnly, &query)
	h.Kind, h.Age, h.Query = HolderKind(kind), span.Of(millis, time.Millisecond), withoutValues(query)
	return h, err
}

const maxQueryLen = 60 // characters

// withoutValues returns the beginning of a statement up to the first value or comment in it,
// in one line. An ellipsis stands for the rest. Of SET it shows nothing more: its value need
// not look like one.
func withoutValues(query string) string {
	shown := query[:firstValue(query)]
	if first, _, _ := strings.Cut(strings.TrimSpace(shown), " "); strings.EqualFold(first, "SET") {
		shown = first
	}
	line := strings.Join(strings.Fields(shown), " ")
	if utf8.RuneCountInString(line) > maxQueryLen {
		line, shown = string([]rune(line)[:maxQueryLen]), ""
	}
	if len(shown) < len(query) {
		return strings.TrimSpace(line) + "…"
	}
	return line
}

// firstValue returns where the first literal, parameter or comment of a statement begins, or
// where the statement ends. Digits within a name are not a value.
func firstValue(query string) int {
	inName := false
	for i, r := range query {
		isDigit := r >= '0' && r <= '9'
		switch {
		case r == '\'' || r == ';' || r == '$' && !inName || isDigit && !inName,
			strings.HasPrefix(query[i:], "--"), strings.HasPrefix(query[i:], "/*"):
			return i
		}
		inName = isDigit || r == '_' || r == '$' || r >= 0x80 || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	return len(query)
}
