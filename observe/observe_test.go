package observe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

func TestLogTo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := Observers(LogTo(slog.New(slog.NewTextHandler(&out, nil))))
	o.Observe(t.Context(), Event{Op: OpPublish, IDs: []string{"a", "b"}, Count: 2})
	o.Observe(t.Context(), Event{Op: OpDead, IDs: []string{"c"}, Reason: waybill.ReasonTooLarge, Err: errors.New("no")})
	o.Observe(t.Context(), Event{Op: OpDuplicate, IDs: []string{"d"}})
	o.Observe(t.Context(), Event{Op: OpClaim, Count: 5})
	o.Observe(t.Context(), Event{Op: OpCleanup, Count: 12})
	o.Observe(t.Context(), Event{Op: OpCleanup, Err: waybill.ConflictError(errors.New("locked"))})
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

// TestLogTo_PublishRate: a flood of published messages leaves 10 records per second at info,
// and none is without a record.
func TestLogTo_PublishRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := LogTo(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		publish := func(n int) {
			for range n {
				o.Observe(t.Context(), Event{Op: OpPublish, IDs: []string{"a", "b"}, Count: 2})
			}
		}
		publish(100)
		time.Sleep(time.Second)
		publish(1)
		text := out.String()
		if info, debug := strings.Count(text, "level=INFO"), strings.Count(text, "level=DEBUG"); info != 11 || debug != 90 {
			t.Errorf("%d records at info and %d at debug, want 11 and 90", info, debug)
		}
		if !strings.Contains(text, "count=2 not_shown=180\n") || strings.Count(text, "not_shown") != 1 {
			t.Errorf("the last record does not say how many were not shown: %s", text[strings.LastIndex(text, "level=INFO"):])
		}
		o.Observe(t.Context(), Event{Op: OpPublish, Err: errors.New("refused")})
		if !strings.Contains(out.String(), "level=ERROR msg=publish") {
			t.Error("a failure is not at error")
		}
	})
}

// TestLogTo_Documented holds docs/observability.md and the records together: every event with
// its levels, and every key.
func TestLogTo_Documented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	full := Event{
		Name: "n", Consumer: "c", Loop: "l", Destination: "d", Topic: "t", Type: "y", IDs: []string{"a"}, Count: 2, Attempt: 1,
		Delay: 1, Duration: 1, Reason: waybill.ReasonExpired, Operation: "o", Status: "s", Err: errors.New("e"),
	}
	for _, attr := range logAttrs(full) {
		if !strings.Contains(string(text), "`"+attr.Key+"`") {
			t.Errorf("the key %s is not documented", attr.Key)
		}
	}
	source, err := os.ReadFile("observe.go")
	if err != nil {
		t.Fatal(err)
	}
	ops := regexp.MustCompile(`Op = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	for _, op := range ops {
		row := regexp.MustCompile("(?m)^\\|[^|]*`" + op[1] + "`[^|]*\\|([^|]*)\\|(.*)$").FindStringSubmatch(string(text))
		if row == nil {
			t.Errorf("%s is not documented", op[1])
			continue
		}
		well, bad := logLevel(Event{Op: Op(op[1])}), logLevel(Event{Op: Op(op[1]), Err: errors.New("e")})
		for _, level := range []slog.Level{well, bad} {
			if Op(op[1]) == OpPublish || Op(op[1]) == OpLoop && level == slog.LevelDebug {
				continue // in words; a round that went well is not reported
			}
			if !strings.Contains(row[0], strings.ToLower(level.String())) {
				t.Errorf("%s may be at %s, which is not documented: %s", op[1], level, row[0])
			}
		}
	}
	if len(ops) < 20 {
		t.Errorf("only %d events were found", len(ops))
	}
}

type starter struct{ ended *int }

func (s starter) Start(ctx context.Context, _ Op, _ ...*waybill.Message) (context.Context, func(error)) {
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
