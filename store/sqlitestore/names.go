package sqlitestore

import (
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

const (
	defaultPrefix = "waybill_"
	maxPrefixLen  = 40
)

// tables are the names that SQL texts put in braces, without prefix.
var tables = [...]string{
	"settings", "outbox", "outbox_source", "outbox_position", "outbox_position_given", "outbox_waiting", "outbox_waiting_due", "outbox_waiting_unit",
	"outbox_archive", "outbox_ids", "scheduled", "scheduled_due", "dead_letters", "dead_letters_requeued", "dead_letters_parks", "dead_letters_id",
	"dead_letters_group", "dead_letters_state", "dead_letters_failed", "note_resolved",
	"audit_log", "audit_log_action", "audit_log_actor", "audit_log_letter", "audit_log_message", "audit_log_replay",
	"inbox", "inbox_type", "inbox_processed", "inbox_record", "inbox_record_check", "inbox_record_answer", "inbox_leases", "idempotency_responses", "idempotency_responses_expiry", "inbox_leases_seen", "consumer_attempts", "consumer_offsets", "relays", "relay_lanes", "messages", "schema_versions",
	"replays", "dead_letters_replay", "scheduled_token", "schedules", "schedules_next",
	"sagas", "sagas_status", "sagas_ended", "saga_log",
	"outbox_new", "outbox_waiting_new", "outbox_ids_new", "outbox_id", "outbox_waiting_id", "outbox_ids_id", "traffic",
}

// columnsSQL are the columns of a message without defaults, for tables behind the outbox.
const columnsSQL = `id TEXT NOT NULL, topic TEXT NOT NULL, direct INTEGER NOT NULL, key TEXT NOT NULL, type TEXT NOT NULL,
    source TEXT NOT NULL, tenant TEXT NOT NULL, subject TEXT NOT NULL, payload TEXT, payload_bytes BLOB,
    content_type TEXT NOT NULL, data_schema TEXT NOT NULL, headers TEXT, correlation_id TEXT NOT NULL,
    causation_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, trace_parent TEXT NOT NULL, trace_state TEXT NOT NULL,
    time INTEGER, deliver_at INTEGER, expires_at INTEGER, enqueued_at INTEGER NOT NULL`

// nowSQL is the clock: microseconds since 1970, to the millisecond. It is constant within a statement.
const nowSQL = `(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + (SELECT clock_offset_us FROM {settings}))`

// names renders SQL texts. {table} becomes a quoted name, {outbox_text} a literal with a name; {now}, {columns}, {key}, {integer}
// and {message} (the columns of a message) what they stand for; and $1 becomes ?1, which every driver takes. As a limit it
// becomes a sum: SQLite plans for the number that is bound, and so parses such a statement again whenever it runs.
type names struct {
	prefix   string
	replacer *strings.Replacer
}

func newNames(prefix string) (names, error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	if err := validPrefix(prefix); err != nil {
		return names{}, err
	}
	var tablePairs []string
	for _, t := range tables {
		tablePairs = append(tablePairs, "{"+t+"}", quoteName(prefix+t))
	}
	for _, t := range [...]string{"outbox", "outbox_new"} {
		tablePairs = append(tablePairs, "{"+t+"_text}", "'"+strings.ReplaceAll(prefix+t, "'", "''")+"'")
	}
	pairs := append(tablePairs,
		"{now}", strings.NewReplacer(tablePairs...).Replace(nowSQL), "{columns}", columnsSQL, "{message}", sqldb.MessageColumns, "{key}", "key", "{integer}", "INTEGER")
	for digit := '1'; digit <= '9'; digit++ { // but not the $ of a path within JSON
		pairs = append(pairs, "LIMIT $"+string(digit), "LIMIT 0 + ?"+string(digit), "$"+string(digit), "?"+string(digit))
	}
	return names{prefix: prefix, replacer: strings.NewReplacer(pairs...)}, nil
}

func (n names) render(sql string) string { return n.replacer.Replace(strings.TrimSpace(sql)) }

func validPrefix(prefix string) error {
	switch {
	case strings.TrimSpace(prefix) == "":
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "is blank"}
	case len(prefix) > maxPrefixLen:
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "is longer than 40 bytes"}
	case strings.HasPrefix(strings.ToLower(prefix), "sqlite_"):
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "begins with sqlite_, which SQLite keeps for itself"}
	case strings.ContainsFunc(prefix, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd || r == '{' || r == '}' }):
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "has a control character, a brace or invalid UTF-8"}
	}
	return nil
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
