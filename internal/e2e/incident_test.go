package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestIncident runs examples/incident, with an outage of 2 s instead of two minutes.
func TestIncident(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "incident")
	goBuild(t, filepath.Join("..", ".."), program, "./examples/incident")
	cmd := exec.CommandContext(t.Context(), program, "-store", postgresURL(), "-broker", natsURL(), "-outage", "2s")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	rest := strings.Join(strings.Fields(string(out)), " ") // tables are as wide as they must be
	for _, want := range []string{                         // in this order
		"The shop sells", "$ waybill doctor", "ok broker",
		"is cut", "$ waybill doctor", "problem broker", "$ waybill outbox stats", "Pending",
		"The broker is back", "$ waybill dead list", "no such currency", "$ waybill dead requeue ", "There are no dead letters.",
		"Shipping lags", "$ waybill doctor", "The ledger balances", "$ waybill doctor",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("the output has no %q where it should be", want)
		}
		rest = after
	}
}
