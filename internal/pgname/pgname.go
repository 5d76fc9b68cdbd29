// Package pgname checks and quotes names of PostgreSQL.
package pgname

import (
	"strings"

	"github.com/waybill-go/waybill"
)

const maxLen = 40 // leaves room for the longest suffix within PostgreSQL's 63 bytes

// Check returns an [*waybill.InvalidError] about field unless a schema or prefix may have the name.
func Check(field, name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return &waybill.InvalidError{Field: field, Reason: "is blank"}
	case len(name) > maxLen:
		return &waybill.InvalidError{Field: field, Reason: "is longer than 40 bytes"}
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd || r == '{' || r == '}' || r == '$' }):
		return &waybill.InvalidError{Field: field, Reason: "has a control character, '{', '}', '$' or invalid UTF-8"}
	}
	return nil
}

// Quote returns a name as an identifier in quotes.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// QuoteText returns a text as a literal.
func QuoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
