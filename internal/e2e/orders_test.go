package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOrders runs the example of a saga to its end.
//
//test:sessions
func TestOrders(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "orders")
	source := filepath.Join("..", "..", "examples", "orders")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil {
		t.Fatalf("the program ended with %v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got) // the first two run concurrently
	want := []string{
		"order o-1: completed [reserved charged shipped]",
		"order o-2: compensated [reserved released] the bank has refused",
		"order o-3: compensated [reserved refunded released] step charge: no answer within 2s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the program prints\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
