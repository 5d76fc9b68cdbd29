package sqlitestore

import (
	"fmt"
	"strings"
	"testing"
)

// TestNewStatements tells of a statement that is missing, that nobody runs, or that SQLite parses again for each limit.
func TestNewStatements(t *testing.T) {
	t.Parallel()
	n, err := newNames("")
	if err != nil {
		t.Fatal(err)
	}
	common, own, err := newStatements(n)
	if err != nil {
		t.Error(err)
	}
	if all := fmt.Sprint(common, own); strings.Contains(all, "LIMIT ?") || !strings.Contains(all, "LIMIT 0 + ?") {
		t.Error("a parameter alone is a limit")
	}
}
