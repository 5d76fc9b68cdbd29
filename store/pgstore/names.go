package pgstore

import (
	"strings"

	"github.com/waybill-go/waybill"
)

const (
	defaultSchema = "waybill"
	maxNameLen    = 40 // leaves room for the longest suffix within PostgreSQL's 63 bytes
)

// tables are the names that SQL texts put in braces, without prefix.
var tables = [...]string{
	"outbox", "outbox_waiting", "outbox_archive", "outbox_archive_rest", "outbox_ids", "scheduled",
	"dead_letters", "inbox", "consumer_attempts", "relays", "relay_lanes", "messages", "enqueue",
	"clock", "schema_versions",
}

// names renders SQL texts: {schema} and {table} become quoted, qualified names.
type names struct {
	schema, prefix string
	replacer       *strings.Replacer
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
	pairs := []string{"{schema}", quoteName(schema)}
	for _, t := range tables {
		pairs = append(pairs, "{"+t+"}", quoteName(schema)+"."+quoteName(prefix+t))
	}
	return names{schema: schema, prefix: prefix, replacer: strings.NewReplacer(pairs...)}, nil
}

func (n names) render(sql string) string { return n.replacer.Replace(sql) }

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
