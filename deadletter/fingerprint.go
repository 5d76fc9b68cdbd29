package deadletter

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// Fingerprint returns the name of a group of dead letters with the same error: those of one origin,
// consumer (for a relay's letter: topic) and type whose errors differ only in what [NormalizeError]
// removes. It is 16 hexadecimal digits of a SHA-256, and must not change.
func Fingerprint(origin Origin, name, messageType, errText string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(origin), name, messageType, NormalizeError(errText)}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

const maxNormalized = 200 // bytes; what follows is seldom about the cause

// What differs from one failure to the next, in the order in which it is removed.
var volatile = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`"[^"]*"|\B'[^']*'|` + "`[^`]*`"), "<text>"}, // not from an apostrophe on
	{regexp.MustCompile(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`), "<id>"},
	{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "<id>"}, // a ULID
	{regexp.MustCompile(`\b(0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]*\b`), "<n>"},
	{regexp.MustCompile(`\d+`), "<n>"},
	{regexp.MustCompile(`(<n>[.:,])+<n>`), "<n>"},
	{regexp.MustCompile(`\s+`), " "},
}

// NormalizeError removes from an error's text what differs from one failure to the next:
// quoted texts, ids, numbers and addresses.
func NormalizeError(text string) string {
	text = strings.ToValidUTF8(text, "")
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.name)
	}
	text = strings.TrimSpace(text)
	if len(text) > maxNormalized {
		text = strings.ToValidUTF8(text[:maxNormalized], "")
	}
	return text
}
