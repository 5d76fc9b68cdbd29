package pgadmin

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWithoutValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ query, want string }{
		{"", ""},
		{"COMMIT", "COMMIT"},
		{"SELECT\n  count(*)\tFROM t2", "SELECT count(*) FROM t2"},
		{"SELECT * FROM t WHERE id = $1", "SELECT * FROM t WHERE id =…"},
		{"SELECT * FROM t WHERE id = 4711", "SELECT * FROM t WHERE id =…"},
		{"SELECT * FROM t WHERE id=-4711", "SELECT * FROM t WHERE id=-…"},
		{"UPDATE users SET token = 'S3CR3T'", "UPDATE users SET token =…"},
		{"UPDATE users SET token = E'S3CR3T'", "UPDATE users SET token = E…"},
		{"DO $$ BEGIN S3CR3T END $$", "DO…"},
		{"DO $x$ S3CR3T $x$", "DO…"},
		{"SELECT a$b, t2.c3 FROM \"Of Me\"", "SELECT a$b, t2.c3 FROM \"Of Me\""},
		{"/* S3CR3T */ SELECT", "…"},
		{"SELECT -- S3CR3T", "SELECT…"},
		{"ALTER ROLE r PASSWORD 'S3CR3T'", "ALTER ROLE r PASSWORD…"},
		{"set app.token to S3CR3T", "set…"},
		{"BEGIN; SET app.token TO S3CR3T", "BEGIN…"},
		{"SET app.token=S3CR3T", "SET…"},
		{strings.Repeat("é", 61), strings.Repeat("é", 60) + "…"},
		{strings.Repeat("é", 60), strings.Repeat("é", 60)},
	} {
		if got := withoutValues(tt.query); got != tt.want {
			t.Errorf("withoutValues(%q) = %q, want %q", tt.query, got, tt.want)
		}
	}
}

// What is shown is a beginning of the statement without quotes, and short.
func FuzzWithoutValues(f *testing.F) {
	for _, query := range []string{"SELECT 'x'", "SET a TO b", "SELECT $1", "a$b1 --", "é'", " /* x */"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if !utf8.ValidString(query) {
			return // the server sends no such thing
		}
		got := strings.TrimSuffix(withoutValues(query), "…")
		if strings.ContainsRune(got, '\'') || utf8.RuneCountInString(got) > maxQueryLen {
			t.Errorf("withoutValues(%q) = %q", query, got)
		}
		if !strings.HasPrefix(strings.Join(strings.Fields(query), " "), got) && !strings.HasPrefix(strings.Join(strings.Fields(query), " ")+" ", got) {
			t.Errorf("withoutValues(%q) = %q, not a beginning of it", query, got)
		}
	})
}
