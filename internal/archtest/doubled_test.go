package archtest

import (
	"path/filepath"
	"testing"
)

// TestDoubled is the check itself: no page has two wordings of one passage side by side, and no
// row stands outside its table.
func TestDoubled(t *testing.T) {
	t.Parallel()
	docs, err := LoadDocs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	written := func(path string) bool {
		return path == "docs/cli.md" || path == "bench/results/README.md" // by "waybill" and by bench
	}
	for _, finding := range append(CheckDoubled(docs, written), CheckTables(docs)...) {
		t.Error(finding)
	}
}

func TestCheckDoubled(t *testing.T) {
	t.Parallel()
	const (
		once  = "While the first transaction is open, the second\nwaits in its INSERT."
		again = "While the `first` transaction is\nopen the second waits: that is all."
		gap   = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n"
	)
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"two wordings", once + "\n" + again, []string{"x.md:3: says again what line 1 says: while the first transaction is open the"}},
		{"far from each other", once + gap + again, nil},
		{"in code", once + "\n```\n" + again + "\n```", nil},
		{"in a table", once + "\n| " + once[:40] + " |", nil},
		{"small words", "if it is so or not so\nif it is so or not so", nil},
		{"one wording", once, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := CheckDoubled([]Doc{page("x.md", tt.text)}, func(string) bool { return false })
			wantFindings(t, texts(got), append([]string{}, tt.want...)...)
		})
	}
	if got := CheckDoubled([]Doc{page("x.md", once+"\n"+again)}, func(string) bool { return true }); len(got) != 0 {
		t.Errorf("found %v in a page that a program writes", got)
	}
}

func TestCheckTables(t *testing.T) {
	t.Parallel()
	got := CheckTables([]Doc{page("x.md", "| a |\n|---|\n| b |\n\ntext\n| c |\n| d |\n\n```\n| code |\n```\n| e |\n| :-- |")})
	wantFindings(t, texts(got), "x.md:6: the row belongs to no table")
}
