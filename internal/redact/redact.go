// Package redact removes passwords from shown and logged texts, even from malformed connection URLs.
package redact

import (
	"regexp"
	"strings"
)

// Hidden replaces a secret.
const Hidden = "xxxxx"

// secretName is the name of a parameter that holds a secret, up to its value.
const secretName = `(?i)([\w.-]*(?:password|passwd|passphrase|pwd|secret|token|api_?key|access_?key|credential)[\w.-]*\s*=\s*)`

var (
	// secretQuery is such a parameter in the query of a URL.
	secretQuery = regexp.MustCompile(secretName + `([^\s&]*)`)

	// secretWord is such a parameter in a connection string of keywords, where a value may be quoted
	// and contain escaped blanks and quotes.
	secretWord = regexp.MustCompile(secretName + `('(?:[^'\\]|\\.)*'?|(?:\\.|\S)*)`)

	// serviceBus is a connection string of Azure Service Bus, and secretField a field of it that
	// holds a secret, up to the next semicolon. A signature holds '=' and '&' itself.
	serviceBus  = regexp.MustCompile(`(?i)^\s*(?:[\w]+=[^;]*;)*\s*endpoint\s*=\s*sb://`)
	secretField = regexp.MustCompile(`(?i)(SharedAccess(?:Key|Signature)\s*=\s*)[^;]*`)

	// nextURL matches the beginning of another URL in a list.
	nextURL = regexp.MustCompile(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)
)

// signingSecret is a signing secret of webhooks.
var signingSecret = regexp.MustCompile(`whsec_\S*`)

// URL returns a connection URL, a list of them, or another connection string with its
// passwords replaced by "xxxxx". The text may be malformed: where the end of a password is unclear
// it hides too much.
func URL(s string) string {
	s = signingSecret.ReplaceAllString(s, "whsec_"+Hidden)
	if strings.HasPrefix(s, "sqlite:") {
		return redactParameters(s) // a path, which may hold an '@' and has no user
	}
	var b strings.Builder
	for s != "" {
		end := len(s)
		if at := nextURL.FindStringIndex(s); at != nil {
			end = at[0] + 1
		}
		b.WriteString(redactUser(redactParameters(s[:end])))
		s = s[end:]
	}
	return b.String()
}

func redactParameters(s string) string {
	if serviceBus.MatchString(s) {
		return secretField.ReplaceAllString(s, "${1}"+Hidden)
	}
	if strings.Contains(s, "?") {
		return secretQuery.ReplaceAllString(s, "${1}"+Hidden)
	}
	return secretWord.ReplaceAllString(s, "${1}"+Hidden)
}

// redactUser hides what is between a user's name and the last '@', because passwords are often
// written without the escapes that a URL requires. A name without a password is a token in NATS
// URLs, and the name everywhere else.
func redactUser(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return redactPort(s)
	}
	scheme, user := "", s[:at]
	if i := strings.Index(user, "://"); i >= 0 {
		scheme, user = user[:i+3], user[i+3:]
	}
	name, _, hasPassword := strings.Cut(user, ":")
	if hasPassword {
		return scheme + name + ":" + Hidden + s[at:]
	}
	switch strings.TrimLeft(scheme, ", ") {
	case "nats://", "tls://", "ws://", "wss://":
		return scheme + Hidden + s[at:]
	}
	return s
}

// schemePart is the scheme of a URL, even of one that lacks a slash.
var schemePart = regexp.MustCompile(`^[,\s]*[A-Za-z][A-Za-z0-9+.-]*:/*`)

// hostPorts are hosts with numbers for ports.
var hostPorts = regexp.MustCompile(`^(?:\[[^\]]*\]|[^:,/?#]*)(?::[0-9]*)?(?:,|$|[/?#])`)

// redactPort hides a port that is no number, and everything after it: it is the password of a URL
// without a host.
func redactPort(s string) string {
	rest := s[len(schemePart.FindString(s)):]
	for rest != "" {
		found := hostPorts.FindString(rest)
		if found == "" {
			host, _, _ := strings.Cut(rest, ":")
			return s[:len(s)-len(rest)+len(host)+1] + Hidden
		}
		rest = rest[len(found):]
		if !strings.HasSuffix(found, ",") {
			break
		}
	}
	return s
}

// Misplaced reports whether the password in a URL seems to contain a '/', '?' or '#' that is not
// percent-encoded. A parser would end the host there, and take the text before for host and port.
func Misplaced(s string) bool {
	scheme, rest, found := strings.Cut(s, "://")
	end := strings.IndexAny(rest, "/?#")
	if !found || end < 0 || strings.HasPrefix(strings.ToLower(scheme), "http") {
		return false // a path may contain an '@'
	}
	before, _, hasAt := strings.Cut(rest[end:], "@")
	return hasAt && !strings.Contains(rest[:end], "@") && strings.Contains(rest[:end], ":") && !strings.Contains(before, "=")
}
