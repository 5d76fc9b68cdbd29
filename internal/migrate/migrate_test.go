package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-go/waybill"
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

func TestSplit_Delimiter(t *testing.T) {
	t.Parallel()
	got := Split("a;\nDELIMITER //\nCREATE PROCEDURE p() BEGIN\n    b;\nEND//\nDELIMITER ;\nc;\n")
	if want := []string{"a;", "CREATE PROCEDURE p() BEGIN\n    b;\nEND", "c;"}; !slices.Equal(got, want) {
		t.Errorf("Split() = %q, want %q", got, want)
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
	list, err := Load(files, "m")
	if err != nil {
		t.Fatal(err)
	}
	list = Rendered(list, render)
	if len(list) != 2 || list[0].Name != "001_a" || list[1].Version != 2 || list[1].Up != "up -- 2;" || list[1].Down != "down 2;" {
		t.Errorf("Rendered() of Load() = %+v", list)
	}
	if got := list[1].Statements(); !slices.Equal(got, []string{"up -- 2;"}) {
		t.Errorf("Statements() = %q, want one, whatever the names hold", got)
	}
	delete(files, "m/001_a.up.sql")
	if _, err := Load(files, "m"); err == nil {
		t.Error("a gap in the numbers is no error")
	}
	delete(files, "m/002_b.down.sql")
	if _, err := Load(files, "m"); err == nil {
		t.Error("a missing down file is no error")
	}
}

func TestUp(t *testing.T) {
	t.Parallel()
	list := []Migration{
		{Version: 1, Name: "001_a", statements: []string{"a1", "a2"}},
		{Version: 2, Name: "002_b", statements: []string{"b1"}},
	}
	for _, tc := range []struct {
		from, to, want int
		ran            []string
	}{
		{0, 2, 2, []string{"a1", "a2", "b1"}}, {1, 2, 2, []string{"b1"}}, {0, 1, 1, []string{"a1", "a2"}}, {2, 1, 2, nil},
	} {
		var ran []string
		got, err := Up(list, tc.from, tc.to, func(stmt string) error { ran = append(ran, stmt); return nil })
		if err != nil || got != tc.want || !slices.Equal(ran, tc.ran) {
			t.Errorf("Up(%d, %d) = %d, %v after %q, want %d after %q", tc.from, tc.to, got, err, ran, tc.want, tc.ran)
		}
	}
	_, err := Up(list, 0, 2, func(stmt string) error { return errors.New(stmt) })
	if err == nil || err.Error() != "001_a: a1" {
		t.Errorf("Up() = %v, want the error of the first statement, with the name of its migration", err)
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	list := make([]Migration, 3)
	for asked, want := range map[int]int{0: 3, 1: 1, 3: 3} {
		if got, err := Target(list, asked); got != want || err != nil {
			t.Errorf("Target(%d) = %d, %v, want %d", asked, got, err, want)
		}
	}
	for _, asked := range []int{-1, 4} {
		var invalid *waybill.InvalidError
		if _, err := Target(list, asked); !errors.As(err, &invalid) || invalid.Field != "Version" {
			t.Errorf("Target(%d): %v, want an error that names Version", asked, err)
		}
	}
}
