package pgstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/waybill-go/waybill"
)

const (
	defaultSchema = "waybill"
	maxNameLen    = 40 // leaves room for the longest suffix within PostgreSQL's 63 bytes
)

// tables are the names that SQL texts put in braces, without prefix.
var tables = [...]string{
	"outbox", "outbox_waiting", "outbox_archive", "outbox_archive_rest", "outbox_ids", "scheduled", "schedules", "sagas", "saga_log",
	"dead_letters", "inbox", "inbox_leases", "idempotency_responses", "consumer_attempts", "consumer_offsets", "relays", "relay_lanes", "messages", "enqueue",
	"outbox_position_seq", // the name that PostgreSQL gives to the sequence of an identity column
	"clock", "lane", "storable", "schema_versions", "wakeups", "wake_relays", "complete_message",
	"dead_letter_changes", "dead_letter_sums", "count_letters", "note_resolved", "with_attempt", "audit_log", "replays",
	"inbox_compact", "inbox_scopes", "inbox_key", "inbox_record", "locks", "add_archive_day", "drop_archive_day", "purge_audit",
	"default_source",
}

// textTables are those of which texts have literals, too.
var textTables = [...]string{"wakeups", "outbox", "outbox_waiting", "outbox_ids", "outbox_archive", "audit_log", "default_source", "outbox_position_seq"}

// names renders SQL texts: {schema} and {table} become quoted, qualified names, {channel}
// the channel on which relays are notified, {wakeups_text} and so on literals with a name, {now}
// the clock and {key} the column.
type names struct {
	schema, prefix, channel string
	replacer                *strings.Replacer
}

func newNames(schema, prefix string) (names, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if err := validName("Schema", schema); err != nil {
		return names{}, err
	}
	if prefix != "" {
		if err := validName("TablePrefix", prefix); err != nil {
			return names{}, err
		}
	}
	channel := channelOf(schema, prefix)
	pairs := []string{"{schema}", quoteName(schema), "{channel}", channel, "{key}", "key", "{now}", quoteName(schema) + "." + quoteName(prefix+"clock") + "()"}
	for _, t := range tables {
		pairs = append(pairs, "{"+t+"}", quoteName(schema)+"."+quoteName(prefix+t))
	}
	for _, t := range textTables {
		pairs = append(pairs, "{"+t+"_text}", quoteText(quoteName(schema)+"."+quoteName(prefix+t)))
	}
	return names{schema: schema, prefix: prefix, channel: channel, replacer: strings.NewReplacer(pairs...)}, nil
}

func (n names) render(sql string) string { return n.replacer.Replace(sql) }

// channelOf returns a name that needs no quotes. Schema and prefix can be longer than a
// channel's 63 bytes, so it has their hash.
func channelOf(schema, prefix string) string {
	sum := sha256.Sum256([]byte(quoteName(schema) + "." + quoteName(prefix)))
	return "waybill_" + hex.EncodeToString(sum[:16])
}

func validName(field, name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return &waybill.InvalidError{Field: field, Reason: "is blank"}
	case len(name) > maxNameLen:
		return &waybill.InvalidError{Field: field, Reason: "is longer than 40 bytes"}
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd || r == '{' || r == '}' || r == '$' }):
		return &waybill.InvalidError{Field: field, Reason: "has a control character, '{', '}', '$' or invalid UTF-8"}
	}
	return nil
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
