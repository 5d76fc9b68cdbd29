package observe

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzErrorText(f *testing.F) {
	f.Add("plain")
	f.Add("nul\x00 and \xff")
	f.Add(strings.Repeat("ü", MaxErrorLen))
	f.Fuzz(func(t *testing.T, s string) {
		got := ErrorText(errors.New(s))
		if len(got) > MaxErrorLen || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Fatalf("ErrorText() = %d bytes, valid %v", len(got), utf8.ValidString(got))
		}
		if utf8.ValidString(s) && len(s) <= MaxErrorLen && !strings.ContainsRune(s, 0) && got != s {
			t.Fatalf("ErrorText(%q) = %q", s, got)
		}
	})
}

func TestErrorText_NoPasswords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial amqp://guest:hunter2@host:5672/v: refused": "dial amqp://guest:xxxxx@host:5672/v: refused",
		`parse "postgres://app:p%20w@db/x": bad`:         `parse "postgres://app:xxxxx@db/x": bad`,
		"nats://u:a:b@h1:4222,nats://u:c@h2:4222":        "nats://u:xxxxx@h1:4222,nats://u:xxxxx@h2:4222",
		"redis://:pw@h": "redis://:xxxxx@h",
		"https://example.com:443/a@b, mail to someone@example.com: no": "https://example.com:443/a@b, mail to someone@example.com: no",
	} {
		if got := ErrorText(errors.New(text)); got != want {
			t.Errorf("ErrorText(%q) = %q, want %q", text, got, want)
		}
	}
}
