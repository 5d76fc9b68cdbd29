package config

import (
	"regexp"
	"strings"
)

// hidden stands where a secret was.
const hidden = "xxxxx"

// secretName is the name of a parameter that holds a secret, up to its value.
const secretName = `(?i)([\w.-]*(?:password|passwd|passphrase|pwd|secret|token|api_?key|access_?key|credential)[\w.-]*\s*=\s*)`

var (
	// secretQuery is such a parameter in the query of a URL.
	secretQuery = regexp.MustCompile(secretName + `([^\s&]*)`)

	// secretWord is one in a connection string of keywords, where a value may be quoted and
	// hold escaped blanks and quotes.
	secretWord = regexp.MustCompile(secretName + `('(?:[^'\\]|\\.)*'?|(?:\\.|\S)*)`)

	// serviceBus is a connection string of Azure Service Bus, and secretField a field of it that
	// holds a secret, up to the next semicolon. A signature holds '=' and '&' itself.
	serviceBus  = regexp.MustCompile(`(?i)^\s*(?:[\w]+=[^;]*;)*\s*endpoint\s*=\s*sb://`)
	secretField = regexp.MustCompile(`(?i)(SharedAccess(?:Key|Signature)\s*=\s*)[^;]*`)

	// nextURL is where another URL begins in a list of them.
	nextURL = regexp.MustCompile(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)
)

// signingSecret is a secret that webhooks are signed with.
var signingSecret = regexp.MustCompile(`whsec_\S*`)

// Redact returns a connection URL, a list of them, or another connection string with its
// passwords replaced by "xxxxx". It is made for text that may be malformed: where it can't
// tell how far a password goes it hides too much.
func Redact(s string) string {
	s = signingSecret.ReplaceAllString(s, "whsec_"+hidden)
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
		return secretField.ReplaceAllString(s, "${1}"+hidden)
	}
	if strings.Contains(s, "?") {
		return secretQuery.ReplaceAllString(s, "${1}"+hidden)
	}
	return secretWord.ReplaceAllString(s, "${1}"+hidden)
}

// redactUser hides what stands between a user's name and the last '@', because passwords
// are written without the escapes that a URL asks for. A name without a password is a token
// in URLs of NATS, and the name everywhere else.
func redactUser(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	scheme, user := "", s[:at]
	if i := strings.Index(user, "://"); i >= 0 {
		scheme, user = user[:i+3], user[i+3:]
	}
	name, _, hasPassword := strings.Cut(user, ":")
	if hasPassword {
		return scheme + name + ":" + hidden + s[at:]
	}
	switch strings.TrimLeft(scheme, ", ") {
	case "nats://", "tls://", "ws://", "wss://":
		return scheme + hidden + s[at:]
	}
	return s
}
