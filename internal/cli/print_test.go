package cli

import (
	"strings"
	"testing"
)

// TestTable_Aligned: each column begins at one place, also below cells that are empty at the end of
// their line.
func TestTable_Aligned(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := writeTable(&out, []string{"ID", "KEY", "NOBODY", "ERROR"}, [][]string{
		{"1", "a key that is long", "", ""}, {"22", "", "", "no\tsuch"}, {"3", "ключ", "", "late"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `ID  KEY                 ERROR
1   a key that is long
22                      no�such
3   ключ                late
`
	if out.String() != want {
		t.Errorf("table is\n%s\nwant\n%s", out.String(), want)
	}
}
