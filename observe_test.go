package waybill

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestLogTo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := Observers(LogTo(slog.New(slog.NewTextHandler(&out, nil))))
	o.Observe(t.Context(), Event{Op: OpPublish, IDs: []string{"a", "b"}, Count: 2})
	o.Observe(t.Context(), Event{Op: OpDead, IDs: []string{"c"}, Reason: ReasonTooLarge, Err: errors.New("no")})
	o.Observe(t.Context(), Event{Op: OpDuplicate, IDs: []string{"d"}})
	o.Observe(t.Context(), Event{Op: OpClaim, Count: 5})
	o.Observe(t.Context(), Event{Op: OpCleanup, Count: 12})
	o.Observe(t.Context(), Event{Op: OpCleanup, Err: ConflictError(errors.New("locked"))})
	for _, want := range []string{
		`level=INFO msg=cleanup count=12`,
		`level=WARN msg=cleanup kind=conflict error=locked`,
		`level=INFO msg=publish message_ids="[a b]" count=2`,
		`level=ERROR msg=dead message_id=c reason=too_large kind=transient error=no`,
		`level=INFO msg=duplicate message_id=d`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "claim") {
		t.Error("a claim is logged above debug")
	}
}

type starter struct{ ended *int }

func (s starter) Start(ctx context.Context, _ Op, _ ...*Message) (context.Context, func(error)) {
	return context.WithValue(ctx, s, true), func(error) { *s.ended++ }
}

func (starter) Observe(context.Context, Event) {}

func TestObservers_StartAndEndEach(t *testing.T) {
	t.Parallel()
	a, b := starter{new(int)}, starter{new(int)}
	ctx, end := Observers(a, b).Start(t.Context(), OpHandle)
	if ctx.Value(a) == nil || ctx.Value(b) == nil {
		t.Error("an observer's context is lost")
	}
	end(nil)
	if *a.ended != 1 || *b.ended != 1 {
		t.Errorf("ended %d and %d times, want once each", *a.ended, *b.ended)
	}
}
