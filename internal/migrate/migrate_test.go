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
	render := func(s string) string { return strings.ReplaceAll(s, "{x}", "y") }
	list, err := Load(files, "m", render)
	if err != nil {
		t.Fatal(err)
	}
	want := []Migration{{1, "001_a", "up 1;", "down 1;"}, {2, "002_b", "up y 2;", "down 2;"}}
	if !slices.Equal(list, want) {
		t.Errorf("Load() = %v, want %v", list, want)
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
