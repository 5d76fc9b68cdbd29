package mysqlstore

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

const (
	defaultPrefix = "waybill_"
	maxPrefixLen  = 40
)

// tables are the names that SQL texts put in braces, without prefix.
var tables = [...]string{
	"settings", "locks", "outbox", "outbox_waiting", "outbox_archive", "outbox_ids", "scheduled", "schedules", "dead_letters",
	"audit_log", "inbox", "inbox_record", "inbox_leases", "idempotency_responses", "consumer_attempts", "consumer_offsets", "relays", "relay_lanes", "messages", "schema_versions", "replays",
	"sagas", "saga_log", "traffic",
}

// tableSQL are the options of each table. Texts that are not compared are UTF-8, whatever the
// default of the database is.
const tableSQL = `ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC`

// columnsSQL are the columns of a message without defaults, for tables behind the outbox.
const columnsSQL = "id VARBINARY(256) NOT NULL, topic VARBINARY(250) NOT NULL, direct TINYINT NOT NULL, `key` VARBINARY(256) NOT NULL," + `
    type VARBINARY(256) NOT NULL, source VARBINARY(256) NOT NULL, tenant VARBINARY(65) NOT NULL, subject VARBINARY(256) NOT NULL,
    payload LONGTEXT, payload_bytes LONGBLOB, content_type VARBINARY(1025) NOT NULL, data_schema VARBINARY(1025) NOT NULL,
    headers MEDIUMTEXT, correlation_id VARBINARY(256) NOT NULL, causation_id VARBINARY(256) NOT NULL,
    idempotency_key VARBINARY(256) NOT NULL, trace_parent VARBINARY(513) NOT NULL, trace_state VARBINARY(513) NOT NULL,
    time BIGINT, deliver_at BIGINT, expires_at BIGINT, enqueued_at BIGINT NOT NULL`

// nowSQL is the clock: microseconds since 1970, whatever the time zone of the session is. It is
// constant within a statement.
const nowSQL = `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + (SELECT clock_offset_us FROM {settings} WHERE only = 1))`

// names renders SQL texts. {outbox} and so on become quoted names; {now}, {columns}, {table},
// {states}, {key} and {integer} what they stand for; and $1 a mark that [bind] replaces.
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
	pairs := []string{"{key}", "`key`", "{integer}", "SIGNED", "{columns}", columnsSQL, "{table}", tableSQL}
	for _, t := range tables {
		pairs = append(pairs, "{"+t+"}", quoteName(prefix+t))
	}
	for _, composed := range [...][2]string{{"{now}", nowSQL}, {"{states}", statesSQL("")}} { // of those before it
		pairs = append(pairs, composed[0], strings.NewReplacer(pairs...).Replace(composed[1]))
	}
	return names{prefix: prefix, replacer: strings.NewReplacer(pairs...)}, nil
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// render marks the parameters before it fills in the names, which may hold anything but NUL.
func (n names) render(sql string) string {
	return n.replacer.Replace(parameter.ReplaceAllString(strings.TrimSpace(sql), mark+"$1"+mark))
}

func validPrefix(prefix string) error {
	switch {
	case strings.TrimSpace(prefix) == "":
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "is blank"}
	case len(prefix) > maxPrefixLen:
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "is longer than 40 bytes"}
	case strings.ContainsFunc(prefix, unfit):
		return &waybill.InvalidError{Field: "TablePrefix", Reason: "has a control character, a brace, a character beyond U+FFFF or invalid UTF-8"}
	}
	return nil
}

// unfit reports whether names cannot have the character.
func unfit(r rune) bool {
	return r < 0x20 || r == 0x7f || r == '{' || r == '}' || r > 0xffff || r == utf8.RuneError
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
