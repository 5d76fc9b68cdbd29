package pgstore

import "testing"

// TestNewStatements tells of a statement that is missing, or that nobody runs.
func TestNewStatements(t *testing.T) {
	t.Parallel()
	n, err := newNames("", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := newStatements(n); err != nil {
		t.Error(err)
	}
}
