package sqlstore

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFragments looks for common fragments that no store uses: each store has its own way with some.
func TestFragments(t *testing.T) {
	t.Parallel()
	common, stores := textsIn(t, "sql"), textsIn(t, "../../store/*/sql")
	heading := regexp.MustCompile(`(?m)^-- fragment: (\w+).*$`)
	for _, m := range heading.FindAllStringSubmatch(common, -1) {
		used := regexp.MustCompile(`\{[^{}]*\b` + m[1] + `\b`)
		if !used.MatchString(common + stores) {
			t.Errorf("the fragment %s is used by no statement", m[1])
		}
	}
}

func textsIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob(%s) = %v, %v, want files", folder, files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
