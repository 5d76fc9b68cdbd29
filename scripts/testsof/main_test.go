package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPatternOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package p\n\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a_test.go", "// TestB waits.\n//\n//test:clock\n//test:soak\nfunc TestB() {}\n\n// TestC is //test:clock in words only.\nfunc TestC() {}\n")
	write("b_test.go", "//test:clock\nfunc TestA() {}\n\n//test:cluster\nfunc TestD() {}\n\n//test:clock\nfunc helper() {}\n")
	write("c.go", "//test:clock\nfunc TestE() {}\n")
	for _, test := range []struct {
		kinds   []string
		want    string
		refused bool
	}{
		{kinds: []string{"clock"}, want: "^(TestA|TestB)$"},
		{kinds: []string{"clock", "soak", "cluster"}, want: "^(TestA|TestB|TestD)$"},
		{kinds: []string{"long"}, refused: true},
		{kinds: []string{"clock", "long"}, refused: true},
	} {
		got, err := patternOf(test.kinds, []string{dir})
		if got != test.want || (err != nil) != test.refused {
			t.Errorf("of %v: %q and %v, want %q", test.kinds, got, err, test.want)
		}
	}
	write("d_test.go", "//test:clok\nfunc TestF() {}\n")
	if got, err := patternOf([]string{"clock"}, []string{dir}); err == nil {
		t.Errorf("with an unknown kind: %q, want an error", got)
	}
}
