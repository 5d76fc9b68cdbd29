package waybill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestKindOf_SeesThroughWrapping(t *testing.T) {
	t.Parallel()
	base := errors.New("base")
	for _, tt := range []struct {
		name string
		err  error
		want Kind
	}{
		{"unmarked", base, Transient},
		{"permanent", PermanentError(ReasonTooLarge, base), Permanent},
		{"unavailable", UnavailableError(base), Unavailable},
		{"conflict", ConflictError(base), Conflict},
		{"retry after", RetryAfter(time.Second, base), Unavailable},
		{"invalid input", &InvalidError{Field: "ID"}, Permanent},
		{"our own shutdown", context.Canceled, Unavailable},
		{"a deadline", context.DeadlineExceeded, Transient},
		{"the outermost mark counts", UnavailableError(PermanentError(ReasonRejected, base)), Unavailable},
		{"joined", errors.Join(errors.New("other"), ConflictError(base)), Conflict},
	} {
		wrapped := fmt.Errorf("while doing: %w", tt.err)
		if got := KindOf(wrapped); got != tt.want {
			t.Errorf("%s: KindOf() = %v, want %v", tt.name, got, tt.want)
		}
		if tt.name != "invalid input" && !errors.Is(wrapped, base) && errors.Is(tt.err, base) {
			t.Errorf("%s: the cause is lost", tt.name)
		}
	}
	if IsPermanent(nil) || IsTransient(nil) || PermanentError(ReasonRejected, nil) != nil || UnavailableError(nil) != nil || ConflictError(nil) != nil || RetryAfter(1, nil) != nil {
		t.Error("nil became an error")
	}
	if r := ReasonOf(fmt.Errorf("x: %w", PermanentError(ReasonTooLarge, base))); r != ReasonTooLarge {
		t.Errorf("ReasonOf() = %s", r)
	}
	if d, ok := AfterOf(fmt.Errorf("x: %w", RetryAfter(3*time.Second, base))); !ok || d != 3*time.Second {
		t.Errorf("AfterOf() = %v, %v", d, ok)
	}
	if _, ok := AfterOf(UnavailableError(base)); ok {
		t.Error("AfterOf() found a wait where there is none")
	}
}

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
