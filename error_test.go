package waybill

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
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
