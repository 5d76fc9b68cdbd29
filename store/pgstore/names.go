package pgstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/waybill-go/waybill/internal/pgname"
)

const defaultSchema = "waybill"

// tables are the names that SQL texts put in braces, without prefix.
var tables = [...]string{
	"outbox", "outbox_waiting", "outbox_archive", "outbox_archive_rest", "outbox_ids", "scheduled", "schedules", "sagas", "saga_log",
	"dead_letters", "inbox", "inbox_leases", "idempotency_responses", "consumer_attempts", "consumer_offsets", "relays", "relay_lanes", "messages", "enqueue",
	"outbox_position_seq", // the name that PostgreSQL gives to the sequence of an identity column
	"clock", "lane", "storable", "schema_versions", "wakeups", "wake_relays", "complete_message",
	"dead_letter_changes", "dead_letter_sums", "count_letters", "note_resolved", "with_attempt", "audit_log", "replays",
	"inbox_compact", "inbox_scopes", "inbox_key", "inbox_record", "locks", "add_archive_day", "drop_archive_day", "purge_audit",
	"default_source", "traffic",
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
	if err := pgname.Check("Schema", schema); err != nil {
		return names{}, err
	}
	if prefix != "" {
		if err := pgname.Check("TablePrefix", prefix); err != nil {
			return names{}, err
		}
	}
	channel := channelOf(schema, prefix)
	pairs := []string{"{schema}", pgname.Quote(schema), "{channel}", channel, "{key}", "key", "{now}", pgname.Quote(schema) + "." + pgname.Quote(prefix+"clock") + "()"}
	for _, t := range tables {
		pairs = append(pairs, "{"+t+"}", pgname.Quote(schema)+"."+pgname.Quote(prefix+t))
	}
	for _, t := range textTables {
		pairs = append(pairs, "{"+t+"_text}", pgname.QuoteText(pgname.Quote(schema)+"."+pgname.Quote(prefix+t)))
	}
	return names{schema: schema, prefix: prefix, channel: channel, replacer: strings.NewReplacer(pairs...)}, nil
}

func (n names) render(sql string) string { return n.replacer.Replace(sql) }

// channelOf returns a name that needs no quotes. Schema and prefix can be longer than a
// channel's 63 bytes, so it has their hash.
func channelOf(schema, prefix string) string {
	sum := sha256.Sum256([]byte(pgname.Quote(schema) + "." + pgname.Quote(prefix)))
	return "waybill_" + hex.EncodeToString(sum[:16])
}
