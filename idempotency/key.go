package idempotency

import (
	"errors"
	"net/http"
	"strings"
)

// The headers that carry a key. The second is sent by clients that predate the draft.
const (
	keyHeader    = "Idempotency-Key"
	oldKeyHeader = "X-Idempotency-Key"
)

var (
	errMissing   = errors.New("the request has no header " + keyHeader)
	errMalformed = errors.New(keyHeader + " must be one string of 1 to 255 printable ASCII characters, in quotes or without blanks, quotes, backslashes, commas and semicolons")
)

// keyOf returns the key in the headers. If there are several they must be the same.
func keyOf(h http.Header) (string, error) {
	values := append(h.Values(keyHeader), h.Values(oldKeyHeader)...)
	if len(values) == 0 {
		return "", errMissing
	}
	key, err := parseKey(values[0])
	for _, v := range values[1:] {
		if other, _ := parseKey(v); other != key {
			return "", errMalformed
		}
	}
	return key, err
}

// parseKey reads a string as RFC 8941 writes it, without parameters, or a bare one.
func parseKey(value string) (string, error) {
	value = strings.Trim(value, " \t")
	key := value
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		if key, ok = unquote(quoted); !ok {
			return "", errMalformed
		}
	} else if strings.ContainsAny(value, " \"\\,;") {
		return "", errMalformed
	}
	if key == "" || len(key) > MaxKeyLen || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errMalformed
	}
	return key, nil
}

// unquote returns the string before the quote that must end the text. Only quotes and
// backslashes are escaped.
func unquote(text string) (string, bool) {
	var key strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return key.String(), i == len(text)-1
		case '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			key.WriteByte(text[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", false
}
