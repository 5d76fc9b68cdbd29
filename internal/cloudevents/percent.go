package cloudevents

import (
	"errors"
	"strings"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("is not UTF-8")

const hexDigits = "0123456789ABCDEF"

// Escape percent-encodes s as the CloudEvents bindings for HTTP and NATS prescribe: space, double
// quote, percent and everything that is not printable ASCII.
func Escape(s string) string {
	n := 0
	for i := range len(s) {
		if mustEscape(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	out := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; mustEscape(c) {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

func mustEscape(c byte) bool { return c <= ' ' || c == '"' || c == '%' || c >= 0x7f }

// Unescape is the inverse of [Escape]. It also accepts what other producers may write: values in
// double quotes with backslash escapes, and a percent sign without two hexadecimal digits, which is
// kept. The result is UTF-8, or the error says that it is not.
func Unescape(s string) (string, error) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = unquote(s[1 : len(s)-1])
	}
	if strings.IndexByte(s, '%') >= 0 {
		s = Unpercent(s)
	}
	if !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "\ufffd"), errNotUTF8
	}
	return s, nil
}

func unquote(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}

// Unpercent decodes percent-encoded bytes, and leaves everything else unchanged.
func Unpercent(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := unhex(s[i+1]), unhex(s[i+2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
