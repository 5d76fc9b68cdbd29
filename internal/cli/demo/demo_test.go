package demo_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/internal/cli/demo"
	"github.com/waybill-go/waybill/internal/cli/demo/servers"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// TestMain plays the parts that the demo starts as processes of their own.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "demo" {
		if err := demo.Child(context.Background(), os.Args[2], os.Stdin, servers.All{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// places are the servers that the demo is shown on; "" stands for its own.
var places = []struct{ name, store, broker string }{
	{"embedded", "", ""},
	{"postgres and nats", postgresURL(), env("NATS_URL", "nats://127.0.0.1:4222")},
	{"postgres and rabbitmq", postgresURL(), env("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")},
}

func postgresURL() string {
	return env("POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
}

func show60(t *testing.T, store, broker, broken string) (*demo.Ledger, string) {
	t.Helper()
	var output bytes.Buffer
	l, err := demo.Run(t.Context(), demo.Config{Servers: servers.All{}, Store: store, Broker: broker, Orders: 60, Break: broken, Output: &output})
	if err != nil {
		t.Fatalf("Run() = %v\n%s", err, output.String())
	}
	t.Logf("%s\n%s", output.String(), l.Verdict())
	return l, output.String()
}

func TestDemo_Balances(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l, output := show60(t, p.store, p.broker, demo.BreakNothing)
			if !l.Balances || len(l.Off) != 0 {
				t.Errorf("off: %v", l.Off)
			}
			if l.Killed != (demo.Deaths{Shop: 2, Relay: 2}) {
				t.Errorf("killed: %+v", l.Killed)
			}
			copies, ok := named(l, "extra copies on the broker")
			if least := 60 / 10; !ok || copies.Count < least {
				t.Errorf("extra copies: %d, want %d at least", copies.Count, least)
			}
			if !strings.Contains(output, "The relay was killed after the broker had confirmed") {
				t.Error("the output does not tell of the relay's death")
			}
			checkProgress(t, output)
			if strings.Contains(output, "guest:guest") {
				t.Error("the output has a password in it")
			}
		})
	}
}

// Without its inbox, or its outbox, the ledger is off where that part would have mattered.
func TestDemo_Broken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		broken  string
		off, on []string
	}{
		{demo.BreakInbox, []string{"billing: invoices", "billing: cents invoiced", "shipping: parcels"}, []string{"orders committed", "messages published", "billing: orders with invoices"}},
		{demo.BreakOutbox, []string{"different messages on the broker", "billing: invoices", "shipping: orders with parcels"}, []string{"orders committed", "billing: duplicates absorbed"}},
	}
	for _, tt := range tests {
		t.Run(tt.broken, func(t *testing.T) {
			t.Parallel()
			l, _ := show60(t, "", "", tt.broken)
			if l.Balances {
				t.Error("the ledger balances")
			}
			for _, name := range tt.off {
				if !slices.Contains(l.Off, name) {
					t.Errorf("%s is not off: %v", name, l.Off)
				}
			}
			for _, name := range tt.on {
				if line, ok := named(l, name); !ok || !line.OK() {
					t.Errorf("%s is off: %+v", name, line)
				}
			}
		})
	}
}

// One that is interrupted leaves nothing behind.
func TestDemo_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	output := &interrupter{after: "shop was killed", cancel: cancel}
	name := "waybill-demo-" + strings.ToLower(rand.Text()[:8])
	l, err := demo.Run(ctx, demo.Named(demo.Config{Servers: servers.All{}, Store: postgresURL(), Orders: 5000, Output: output}, name))
	if l != nil || err == nil || strings.Contains(err.Error(), "clean up") {
		t.Fatalf("Run() = %v, %v, want an error that is not about the clean-up", l, err)
	}
	db, _, err := opener.OpenSQL(t.Context(), opener.StoreConfig{URL: postgresURL(), Schema: "public"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left int
	if err := db.QueryRow(`SELECT count(*) FROM pg_namespace WHERE nspname = $1`, name).Scan(&left); err != nil || left != 0 {
		t.Errorf("schemas left: %d, %v", left, err)
	}
}

// interrupter calls cancel when a text is written.
type interrupter struct {
	after  string
	cancel func()
}

func (w *interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.after) {
		w.cancel()
	}
	return len(p), nil
}

func TestRun_Refuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []demo.Config{{Broker: "mem:"}, {Store: "mysql://x"}, {Broker: "kafka://x"}} {
		cfg.Servers = servers.All{}
		if _, err := demo.Run(t.Context(), cfg); !errors.Is(err, opener.ErrURL) {
			t.Errorf("Run(%+v) = %v, want ErrURL", cfg, err)
		}
	}
}

func TestChild_Refuses(t *testing.T) {
	t.Parallel()
	if err := demo.Child(t.Context(), "bank", strings.NewReader("{}"), nil); err == nil {
		t.Error("a role that is none is no error")
	}
	if err := demo.Child(t.Context(), "shop", strings.NewReader(""), nil); err == nil || !strings.Contains(err.Error(), "waybill demo") {
		t.Errorf("Child() = %v, want a hint", err)
	}
}

// named returns the line of a ledger with a name.
func named(l *demo.Ledger, name string) (demo.Line, bool) {
	i := slices.IndexFunc(l.Lines, func(line demo.Line) bool { return line.Name == name })
	if i < 0 {
		return demo.Line{}, false
	}
	return l.Lines[i], true
}

// checkProgress holds what a reader expects of each line: what was invoiced or packed was
// ordered before, and is on the broker.
func checkProgress(t *testing.T, output string) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(output) {
		var orders, all, broker, invoices, parcels int
		if _, err := fmt.Sscanf(line, "orders %d of %d → on the broker %d, copies included → invoices %d, parcels %d", &orders, &all, &broker, &invoices, &parcels); err != nil {
			continue
		}
		if lines++; max(invoices, parcels) > min(orders, broker) || orders > all {
			t.Errorf("impossible progress: %s", line)
		}
	}
	if lines == 0 {
		t.Error("the output has no progress")
	}
}
