package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWords is the check itself: no comment, string, page, script or statement uses a phrase of the table.
func TestWords(t *testing.T) {
	t.Parallel()
	texts, err := LoadTexts(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range CheckWords(texts, wordsAllowed) {
		t.Error(finding)
	}
}

func TestCheckWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, text string
		want             []string
	}{
		{"in a page", "x.md", "one\nAll the same, it is sent.", []string{`x.md:2: "All the same"; write: anyway`}},
		{"over two lines", "x.md", "what is under\nway", []string{`x.md:1: "under way"; write: in flight, in progress, running`}},
		{"twice in a line", "x.md", "beside, beside", []string{
			`x.md:1: "beside"; write: next to, with, in addition to`, `x.md:1: "beside"; write: next to, with, in addition to`}},
		{"in a comment over two lines", "x.go", "package x\n\n// It is sent all\n// the same.\nvar x int\n", []string{`x.go:3: "all // the same"; write: anyway`}},
		{"behind code", "x.go", "package x\n\nvar x int // put back\n", []string{`x.go:3: "put back"; write: requeue, return`}},
		{"in a string", "x_test.go", "package x\n\nconst x = \"it is told\"\n", []string{`x_test.go:3: "is told"; write: receives, is notified; is configured`}},
		{"in a raw string", "x.go", "package x\n\nconst x = `one\nit parses anew`\n", []string{`x.go:4: "anew"; write: again; recreate, restart`}},
		{"in other forms", "x.md", "There is none anymore: it was brought quickly up to date.", []string{
			`x.md:1: "brought quickly up to date"; write: migrate`, `x.md:1: "none anymore"; write: deleted, no longer`}},
		{"in a script", "x.sh", "# Runs beside\n# the other.", []string{`x.sh:1: "beside"; write: next to, with, in addition to`}},
		{"in a name of Go", "x.go", "package x\n\nvar beside, anew int\n", nil},
		{"part of a word", "x.md", "Besides, a renewal is told.", []string{`x.md:1: "is told"; write: receives, is notified; is configured`}},
		{"other words", "x.md", "A letter waits at the gate and turns back.", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFindings(t, texts(CheckWords(textsIn(t, tt.path, tt.text), nil)), append([]string{}, tt.want...)...)
		})
	}
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	for phrase, want := range map[string]string{
		`(?:is|are) told`: "told", `put(?:s|ting)? back`: "back", `passages?`: "passage", `(?:bring|brought) (?:\S+ ){0,3}up to date`: "date",
	} {
		if got := keyOf(phrase); got != want {
			t.Errorf("keyOf(%q) = %q, want %q", phrase, got, want)
		}
	}
	for _, pattern := range wordPatterns {
		if pattern.key == "" {
			t.Errorf("%v has no key", pattern)
		}
	}
}

func TestCheckWords_Allowed(t *testing.T) {
	t.Parallel()
	text := textsIn(t, "x.md", "stored: it was on its way\nit was on its way again")
	got := CheckWords(text, []allowed{{"x.md", "stored: it was on its way"}, {"x.md", "never"}, {"y.md", "it was on its way"}})
	wantFindings(t, texts(got),
		`x.md:2: "on its way"; write: in flight, pending`,
		`x.md:1: the allowance for "never" is not needed`,
		`y.md:1: the allowance for "it was on its way" is not needed`)
}

func TestLoadTexts_LeavesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"a.go", "a_test.go", "Makefile", "docs/b.md", "scripts/c.sh", "store/d.sql", "bench/go.mod", "bench/e.go",
		"bench/results/f.md", "x/testdata/g.md", "x/node_modules/h.md", ".hidden/i.md", "internal/archtest/j.go", "k.png", "go.sum",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package p // comment\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := LoadTexts(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, text := range texts {
		got = append(got, text.Path)
	}
	slices.Sort(got)
	if want := []string{"Makefile", "a.go", "a_test.go", "bench/e.go", "docs/b.md", "scripts/c.sh", "store/d.sql"}; !slices.Equal(got, want) {
		t.Errorf("LoadTexts() found %v, want %v", got, want)
	}
}

// textsIn returns what LoadTexts makes of one file.
func textsIn(t *testing.T, path, text string) []Text {
	t.Helper()
	if filepath.Ext(path) != ".go" {
		return []Text{{Path: path, Line: 1, Body: text}}
	}
	f, err := Parse(path, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return TextsOf(f)
}
