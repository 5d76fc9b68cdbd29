package sqlfile

import (
	"strings"
	"testing"
	"testing/fstest"
	"text/template"
)

var dialect = Dialect{
	Names: []string{"outbox", "now"},
	Funcs: template.FuncMap{"columns": func(alias string) string { return alias + ".id, " + alias + ".topic" }},
}

func files(text string) fstest.MapFS { return fstest.MapFS{"sql/some.sql": {Data: []byte(text)}} }

// upper is a render that tells rendered texts from others.
func upper(text string) string { return strings.ToUpper(text) }

const common = `
-- What is before the first section is a comment.

-- name: claim_ready
-- Reads what was never tried.
SELECT {columns "o"}
  FROM {outbox} o -- in the text
  -- a line of its own
 WHERE {due "o.due_at"} AND x = '{"{}"}'

-- fragment: due column
{.column} <= {now}

-- name: purge_ids
DELETE FROM {outbox}

-- name: replay_start
INSERT
`

func TestFill(t *testing.T) {
	t.Parallel()
	var in struct {
		ClaimReady string
		PurgeIDs   string `sql:",optional"`
		Replays    struct {
			Start string
			Begin string `sql:",optional"`
		} `sql:"replay_"`
		Returns bool `sql:"-"`
	}
	s, err := Load(dialect, files(common), files("-- name: purge_ids\n-- There are none.\n\n-- fragment: due column\n{.column} < {now}\n"))
	if err == nil {
		err = s.Fill(upper, &in)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := "SELECT O.ID, O.TOPIC\n  FROM {OUTBOX} O -- IN THE TEXT\n WHERE O.DUE_AT < {NOW} AND X = '{}'"
	if in.ClaimReady != want || in.PurgeIDs != "" || in.Replays.Start != "INSERT" {
		t.Errorf("Fill() = %+v, want ClaimReady %q, no PurgeIDs and Start INSERT", in, want)
	}
}

func TestFill_Error(t *testing.T) {
	t.Parallel()
	type purge struct{ PurgeIDs string }
	type start struct {
		Start string `sql:",optional"`
	}
	for name, test := range map[string]struct {
		own  string
		into any
		want string
	}{
		"field without a statement": {"", &struct {
			purge
			ClaimReady, ClaimAhead string
			Replays                start `sql:"replay_"`
		}{}, "there is no statement claim_ahead"},
		"field whose statement is empty": {"-- name: purge_ids\n", &struct {
			purge
			ClaimReady string
			Replays    start `sql:"replay_"`
		}{}, "there is no statement purge_ids"},
		"statement without a field": {"", &struct {
			purge
			ClaimReady string
		}{}, "no field is for the statement replay_start"},
		"field of another type": {"", &struct {
			purge
			ClaimReady string
			Replays    start `sql:"replay_"`
			Number     int
		}{}, "the field Number can hold no statement"},
		"field that is not exported": {"", &struct {
			purge
			claimReady string
			Replays    start `sql:"replay_"`
		}{}, "the field claimReady can hold no statement\nno field is for the statement claim_ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Load(dialect, files(common), files(test.own))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Fill(upper, test.into); err == nil || err.Error() != test.want {
				t.Errorf("Fill() = %v, want %s", err, test.want)
			}
		})
	}
}

func TestLoad_Error(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ own, want string }{
		"fragment that nothing uses":    {"-- fragment: spare\nx", "sql/some.sql: spare: no statement uses it"},
		"used by an unused one alone":   {"-- fragment: spare\n{part}\n-- fragment: part\nx", "sql/some.sql: part: no statement uses it\nsql/some.sql: spare: no statement uses it"},
		"name that is not known":        {"-- name: a\n{nothing}", `function "nothing" not defined`},
		"parameter that is not known":   {"-- name: a\n{f 1}\n-- fragment: f n\n{.m}", `map has no entry for key "m"`},
		"too few arguments":             {"-- name: a\n{due}", "sql/some.sql: due: has 1 parameters, not 0"},
		"name of something else":        {"-- name: outbox\nx", "sql/some.sql: outbox: there is something else of this name"},
		"name that is there twice":      {"-- name: a\nx\n-- fragment: a\ny", "sql/some.sql: a: is in sql/some.sql, too"},
		"fragment that contains itself": {"-- name: a\n{f}\n-- fragment: f\n{f}", "sql/some.sql: f: contains itself"},
		"text before the first section": {"x\n-- name: a\n", "sql/some.sql: begins with a text that has no name"},
		"statement with a parameter":    {"-- name: a b\nx", `sql/some.sql: "-- name: a b": want a name, and parameters for a fragment alone`},
		"section without a name":        {"-- fragment:\nx", `sql/some.sql: "-- fragment:": want a name, and parameters for a fragment alone`},
		"brace that is not closed":      {"-- name: a\n{now", "unclosed action"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Load(dialect, files(common), files(test.own)); err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("Load() = %v, want …%s", err, test.want)
			}
		})
	}
}
