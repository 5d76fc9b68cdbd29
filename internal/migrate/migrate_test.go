package migrate

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	got := Split(`-- a comment; with a semicolon;
CREATE TABLE a (
    b text -- more;
);

CREATE FUNCTION f() AS $body$
    SELECT 1;
    SELECT 2;
$body$;
-- the end
`)
	if len(got) != 2 || !strings.HasSuffix(got[0], ");") || !strings.HasSuffix(got[1], "$body$;") {
		t.Errorf("Split() = %q, want the table and the function", got)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{
		"m/002_b.up.sql": file("up {x} 2;"), "m/002_b.down.sql": file("down 2;"),
		"m/001_a.up.sql": file("up 1;"), "m/001_a.down.sql": file("down 1;"),
	}
	render := func(s string) string { return strings.ReplaceAll(s, "{x}", "--") }
	list, err := Load(files, "m", render)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name != "001_a" || list[1].Version != 2 || list[1].Up != "up -- 2;" || list[1].Down != "down 2;" {
		t.Errorf("Load() = %+v", list)
	}
	if got := list[1].Statements(); !slices.Equal(got, []string{"up -- 2;"}) {
		t.Errorf("Statements() = %q, want one, whatever the names hold", got)
	}
	delete(files, "m/001_a.up.sql")
	if _, err := Load(files, "m", render); err == nil {
		t.Error("a gap in the numbers is no error")
	}
	delete(files, "m/002_b.down.sql")
	if _, err := Load(files, "m", render); err == nil {
		t.Error("a missing down file is no error")
	}
}
