package observe

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxErrorLen is the limit of stored error texts, in bytes.
const MaxErrorLen = 2048

// ErrorText returns err's text as it may be stored and logged: valid UTF-8 without NUL bytes,
// without the passwords of URLs, cut at a rune boundary to [MaxErrorLen] bytes. It returns "" for nil.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return truncate(withoutPasswords(err.Error()), MaxErrorLen)
}

var urlPassword = regexp.MustCompile(`(://[^\s/:@"']*):[^\s/"']*@`)

// withoutPasswords replaces the passwords of the URLs in a text.
func withoutPasswords(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return urlPassword.ReplaceAllString(text, "$1:xxxxx@")
}

func truncate(s string, limit int) string {
	clean := make([]byte, 0, min(len(s), limit))
	for _, r := range s {
		if r == 0 {
			r = utf8.RuneError
		}
		if len(clean)+utf8.RuneLen(r) > limit {
			break
		}
		clean = utf8.AppendRune(clean, r)
	}
	return string(clean)
}
