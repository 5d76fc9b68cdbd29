package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOptions_Documented holds the table of docs/configuration.md and the options together:
// the same ones, with the same defaults and limits.
func TestOptions_Documented(t *testing.T) {
	t.Parallel()
	rows := documentedOptions(t)
	for _, o := range Options() {
		row, ok := rows[o.Key]
		if !ok {
			t.Errorf("%s is not documented", o.Key)
			continue
		}
		delete(rows, o.Key)
		if want := "`" + o.Default + "`"; o.Default != "" && row[1] != want {
			t.Errorf("%s is documented with the default %s, want %s", o.Key, row[1], want)
		}
		if o.Default == "" && strings.HasPrefix(row[1], "`") {
			t.Errorf("%s has no default, the documentation has %s", o.Key, row[1])
		}
		checkDocumentedRange(t, o, row[2])
	}
	for key := range rows {
		t.Errorf("%s is documented, and no option", key)
	}
}

func checkDocumentedRange(t *testing.T, o Option, text string) {
	t.Helper()
	for _, value := range o.OneOf {
		if !strings.Contains(text, "`"+value+"`") {
			t.Errorf("%s: the range %q lacks %s", o.Key, text, value)
		}
	}
	for _, limit := range []string{o.Min, o.Max} {
		if !slices.Contains(strings.Fields(strings.ReplaceAll(text, ",", " ")), limit) && limit != "" {
			t.Errorf("%s: the range %q lacks %s", o.Key, text, limit)
		}
	}
}

// documentedOptions returns the cells of the table's rows by the option's key.
func documentedOptions(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| key | default | range | effect |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("the table of options is not there")
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) != 4 {
			break
		}
		rows[strings.Trim(cells[0], "`")] = cells
	}
	return rows
}
