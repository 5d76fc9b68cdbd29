package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestBank: each bug changes a text that is there once.
func TestBank(t *testing.T) {
	t.Parallel()
	at, err := root()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range slices.Concat(bank, breaks) {
		if _, err := b.overlay(at, t.TempDir()); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// TestFind: bugs of several kinds are found, and none is found where there is none.
func TestFind(t *testing.T) {
	t.Parallel()
	quick := map[string]bool{
		"a settlement does not match the epoch": true, "a claim is not told what is held": true, "a message is tried for ever": true,
		"a retry closes nothing": true, "what was not answered is settled as published": true,
	}
	var list []bug
	for _, b := range bank {
		if quick[b.name] {
			list = append(list, b)
		}
	}
	for i, f := range findAll(t.Context(), list, 2000, 0) {
		if f.err != nil || f.by == "" {
			t.Errorf("%s: found by %q, error %v", list[i].name, f.by, f.err)
		}
	}
	none := bug{file: core + "core.go", old: "package relaycore", new: "package relaycore"}
	at, err := root()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := none.overlay(at, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t.Context(), at, "go", "run", "-overlay", overlay, "./internal/sim", "-seeds", "100"); err != nil {
		t.Errorf("without a bug: %v: %s", err, out)
	}
}

// TestTable: README.md has the table of all bugs, and each has been found.
func TestTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), tableHead)
	rows := strings.Split(rest, "\n")
	for i, b := range bank {
		if i >= len(rows) || !strings.HasPrefix(rows[i], "| "+b.name+" |") {
			t.Fatalf("README.md has another row %d than %q; make the table with: go run ./internal/sim/bugs", i, b.name)
		}
		if strings.Contains(rows[i], "**nothing**") {
			t.Errorf("nothing finds %q", b.name)
		}
	}
}

// TestMutantsOf: one operator or condition is another one in each.
func TestMutantsOf(t *testing.T) {
	t.Parallel()
	list, err := mutantsOf("core/x.go", "package x\n\nfunc f(a, b int) int {\n\tif !(a < b) {\n\t\treturn a + b\n\t}\n\treturn 0\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list {
		names = append(names, m.name)
	}
	want := []string{
		"x.go:4: !(a < b) becomes !(!(a < b))", "x.go:4: !(a < b) becomes (a < b)",
		"x.go:4: a < b becomes a <= b", "x.go:4: a < b becomes a >= b", "x.go:5: a + b becomes a - b",
	}
	if !slices.Equal(names, want) {
		t.Errorf("mutants %q, want %q", names, want)
	}
	if !strings.Contains(list[4].whole, "return a - b") || strings.Contains(list[4].whole, "a + b") {
		t.Errorf("the last one is %q", list[4].whole)
	}
}
