package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/internal/cli/opener"
)

// repeated runs a command for a time, and returns what it has shown and its exit code.
func repeated(t *testing.T, screen bool, d time.Duration, args string) (stdout, stderr string, code int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := incident(t)
		opened := 0
		var out, errs bytes.Buffer
		p := &program{
			env: []string{"WAYBILL_STORE=sqlite:shop.db"}, stdin: strings.NewReader(""), stdout: &out, stderr: &errs, screen: screen,
			open: func(context.Context, opener.StoreConfig) (opener.Store, error) {
				if opened++; opened == 2 {
					return nil, &opener.UnreachableError{What: "store", Address: "memory", Err: errors.New("away")}
				}
				return m, nil
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		code = p.run(ctx, strings.Fields(args))
		stdout, stderr = out.String(), errs.String()
	})
	return stdout, stderr, code
}

// TestWatchFlag: a list is shown until it is interrupted, though the store is away for a while.
func TestWatchFlag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   string
		screen bool
		shown  string // how often, in 9 s
		times  int
	}{
		{"dead groups --watch", false, "GROUP", 4},
		{"dead groups --watch=4s", true, clearScreen + "GROUP", 2},
		{"relay status --watch=4s", false, "LEASE UNTIL", 2},
		{"outbox stats --watch=4s", false, "OLDEST", 2},
		{"outbox list --watch=4s --json", false, "[{", 2},
	} {
		stdout, stderr, code := repeated(t, tt.screen, 9*time.Second, tt.args)
		if n := strings.Count(stdout, tt.shown); n != tt.times || code != exitOK {
			t.Errorf("%s: shown %d times, want %d; exit code %d\n%s%s", tt.args, n, tt.times, code, stdout, stderr)
		}
		if !strings.Contains(stderr, "cannot reach the store memory: away") {
			t.Errorf("%s: standard error is %q", tt.args, stderr)
		}
		if strings.Contains(tt.args, "--json") && strings.Count(stdout, "\n") != tt.times {
			t.Errorf("%s: not a line of JSON each time:\n%s", tt.args, stdout)
		}
		if !tt.screen && strings.Contains(stdout, "\x1b") {
			t.Errorf("%s: the screen is cleared where there is none", tt.args)
		}
	}
	if _, stderr, code := repeated(t, false, time.Second, "dead list --watch=99ms"); code != exitUsage || !strings.Contains(stderr, "the minimum is 100ms") {
		t.Errorf("too often: exit code %d, %s", code, stderr)
	}
	if _, _, code := repeated(t, false, time.Second, "dead list --watch --limit 0"); code != exitUsage {
		t.Errorf("a usage error is repeated: exit code %d", code)
	}
}

func TestPaint(t *testing.T) {
	t.Parallel()
	const plain = "         SUBJECT\nok       store\nwarning  a warning\nproblem  broker\n"
	p := &program{}
	if got := p.paint(plain); got != plain {
		t.Errorf("without colours: %q", got)
	}
	p.colours = true
	if got, want := p.paint(plain), "         SUBJECT\nok       store\n\x1b[33mwarning\x1b[0m  a warning\n\x1b[31mproblem\x1b[0m  broker\n"; got != want {
		t.Errorf("with colours: %q, want %q", got, want)
	}
	for env, want := range map[string]bool{"": true, "NO_COLOR=": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		if got := wantsColours([]string{"A=b", env}); got != want {
			t.Errorf("with %s: %t, want %t", env, got, want)
		}
	}
}
