package demo

import (
	"strings"
	"testing"
)

// Named gives the site of a demo a name.
func Named(cfg Config, name string) Config {
	cfg.name = name
	return cfg
}

func TestProgress_Line(t *testing.T) {
	t.Parallel()
	p := progress{Orders: 400, Held: 415, Invoices: 374, Parcels: 370, Waiting: 340}
	const want = "orders 400 of 500 → on the broker 415, copies included → invoices 374, parcels 370"
	if got := p.line(500); got != want {
		t.Errorf("line() = %q, want %q", got, want)
	}
}

func TestLedger_Print_SaysWhatIsNext(t *testing.T) {
	t.Parallel()
	for _, balances := range []bool{true, false} {
		var out strings.Builder
		if err := (&Ledger{Balances: balances}).Print(&out); err != nil {
			t.Fatal(err)
		}
		for _, next := range []string{"examples/first/main.go", "docs/", "waybill dashboard"} {
			if strings.Contains(out.String(), next) != balances {
				t.Errorf("balances %t: the output and %q: %s", balances, next, out.String())
			}
		}
	}
}

func TestConfig_Check(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg Config
		bad string
	}{
		{Config{Orders: 1}, ""},
		{Config{Orders: 500, Break: BreakInbox}, ""},
		{Config{Orders: 0}, "--orders"},
		{Config{Orders: 1_000_001}, "--orders"},
		{Config{Orders: 1, Break: "relay"}, "--break"},
	} {
		if err := tt.cfg.Check(); (err == nil) != (tt.bad == "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("Check(%+v) = %v, want %q", tt.cfg, err, tt.bad)
		}
	}
}

func TestPlace_SQL(t *testing.T) {
	t.Parallel()
	const text = "INSERT INTO t VALUES (?, ?)"
	if got, want := (&place{numbers: true}).sql(text), "INSERT INTO t VALUES ($1, $2)"; got != want {
		t.Errorf("sql() = %q, want %q", got, want)
	}
	if got := (&place{}).sql(text); got != text {
		t.Errorf("sql() = %q, want it unchanged", got)
	}
}
