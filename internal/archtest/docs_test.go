package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocs is the check itself: no link of the documentation leads nowhere, and its Go code and
// the tests that it refers to exist.
func TestDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	docs, err := LoadDocs(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 40 {
		t.Fatalf("LoadDocs() found %d pages", len(docs))
	}
	files := loadModule(t)
	found := CheckLinks(docs, func(path string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
		return err == nil
	})
	found = append(found, CheckSnippets(docs, files)...)
	found = append(found, CheckTestNames(docs, files)...)
	table := slices.IndexFunc(docs, func(d Doc) bool { return d.Path == "internal/e2e/README.md" })
	found = append(found, CheckAcceptance(docs[table], files)...)
	for _, finding := range found {
		t.Error(finding)
	}
}

func TestCheckAcceptance(t *testing.T) {
	t.Parallel()
	f, err := Parse("x/x_test.go", []byte("package x\n// TestA (AS-01): a\nfunc TestA() {}\n// TestB (AS-01, AS-02): b\nfunc TestB() {}\n// TestC (AS-03).\nfunc TestC() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := CheckAcceptance(page("t.md", "| AS-01 | a | TestA, TestB |\n| AS-02 | b | x.TestBoth |"), []*File{f})
	wantFindings(t, texts(got),
		"x/x_test.go:5: t.md does not name TestB in the row AS-02",
		"x/x_test.go:7: t.md does not name TestC in the row AS-03")
}

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	docs := []Doc{
		page("docs/a.md", "# A page\n## `Code` & more\n## Twice\n## Twice\n```\n# no heading, [no link](x.md)\n```"),
		page("docs/b.md", "[a](a.md) [b](#b) [c](a.md#code--more) [d](a.md#twice-1) [e](../go.mod) [f](https://x.example/#y)"),
		page("docs/c.md", "text\n[a](nowhere.md) [b](a.md#no-heading-no-link) [c](#twice)"),
	}
	docs[1].Lines = append(docs[1].Lines, "# B")
	got := CheckLinks(docs, func(path string) bool { return path != "docs/nowhere.md" })
	wantFindings(t, texts(got),
		"docs/c.md:2: nowhere.md leads to no file",
		"docs/c.md:2: a.md#no-heading-no-link leads to no heading",
		"docs/c.md:2: #twice leads to no heading")
}

func TestCheckSnippets(t *testing.T) {
	t.Parallel()
	relay, err := Parse("relay/x.go", []byte("package relay\ntype Config struct { A int; Other[int] }\ntype Other[T any] struct{}\nconst C = 1\nfunc New() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, code string
		want       []string
	}{
		{"statements", "r := relay.New()\nuse(relay.C, relay.Config{A: 1}, other.Thing)", nil},
		{"declarations", "func f() { relay.New() }", nil},
		{"a type, then statements", "type t struct{} // yours\nrelay.New()", nil},
		{"fields", "A: func() { relay.New() },", nil},
		{"embedded field", "x := relay.Config{Other: relay.Other[int]{}}", nil},
		{"no such name", "x := 1\nrelay.Gone()", []string{"x.md:3: there is no relay.Gone"}},
		{"no such field", "x := relay.Config{B: 1}", []string{"x.md:2: there is no relay.Config.B"}},
		{"no such field of a generic type", "x := &relay.Other[int]{B: 1}", []string{"x.md:2: there is no relay.Other.B"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := CheckSnippets([]Doc{page("x.md", "```go\n"+tt.code+"\n```")}, []*File{relay})
			wantFindings(t, texts(got), append([]string{}, tt.want...)...)
		})
	}
	got := CheckSnippets([]Doc{page("x.md", "text\n```go\nif {\n```")}, []*File{relay})
	if len(got) != 1 || got[0].Line != 3 || !strings.Contains(got[0].Text, "does not parse") {
		t.Errorf("found %v of code that does not parse", got)
	}
}

func TestCheckTestNames(t *testing.T) {
	t.Parallel()
	tests, err := Parse("relay/x_test.go", []byte("package relay\nfunc TestRelay_Gate() {}\nfunc (x) TestMethod() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	code := "```\nfunc TestOfYours\n```\n"
	got := CheckTestNames([]Doc{page("x.md", code+"(TestRelay_Gate, TestRelay_…)\nTestGone, TestMethod, Testing")}, []*File{tests})
	wantFindings(t, texts(got), "x.md:5: there is no test TestGone", "x.md:5: there is no test TestMethod")
}

func page(path, text string) Doc { return Doc{Path: path, Lines: strings.Split(text, "\n")} }

func texts(findings []Finding) []string {
	texts := []string{}
	for _, f := range findings {
		texts = append(texts, f.String())
	}
	return slices.Clip(texts)
}
