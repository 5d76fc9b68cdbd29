package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/internal/config"
)

// result is what one run of the program gave.
type result struct {
	stdout, stderr string
	code           int
}

func runProgram(ctx context.Context, env []string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, env, &stdout, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"help"}} {
		r := runProgram(t.Context(), nil, args...)
		if r.code != exitOK || r.stderr != "" {
			t.Fatalf("%q: exit code %d, %s", args, r.code, r.stderr)
		}
		for _, c := range new(program).root().Commands() {
			if n := strings.Count(r.stdout, "\n  "+c.Name()+" "); n != 1 {
				t.Errorf("%q: %s is in %d groups, want one", args, c.Name(), n)
			}
		}
	}
	r := runProgram(t.Context(), nil, "config", "--help")
	for _, o := range config.Options() {
		if !strings.Contains(r.stdout, "--"+o.Flag()+" ") {
			t.Errorf("help of config: --%s is not shown", o.Flag())
		}
	}
	r = runProgram(t.Context(), nil, "dead", "list", "--help")
	for _, flag := range []string{"--limit", "--store", "--json"} {
		if !strings.Contains(r.stdout, flag) {
			t.Errorf("help of dead list does not show %s", flag)
		}
	}
	if strings.Contains(r.stdout, "--relay-lease") {
		t.Error("help of dead list shows options of the relay")
	}
}

func TestConfig_SaysWhereFrom(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte("relay:\n  batch_size: 7\n  mode: strict\nlog.level: debug\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"WAYBILL_RELAY_BATCH_SIZE=8", "WAYBILL_RELAY_PARALLELISM=2", "WAYBILL_CONFIG=" + file}
	args := []string{"config", "--relay-parallelism", "3", "--store", "postgres://app:S3CR3T@db/x"}
	r := runProgram(t.Context(), env, args...)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("exit code %d, %s", r.code, r.stderr)
	}
	want := map[string]string{
		"relay.batch_size":  "8 WAYBILL_RELAY_BATCH_SIZE",
		"relay.parallelism": "3 --relay-parallelism",
		"relay.mode":        "strict " + file + ":3",
		"log.level":         "debug " + file + ":4",
		"store":             "postgres://app:xxxxx@db/x --store",
		"broker":            "- default",
		"outbox.retention":  "7d default",
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != len(config.Options())+1 {
		t.Errorf("%d lines, want one for each option and the headings", len(lines))
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		if w, ok := want[fields[0]]; ok && w != fields[1]+" "+fields[2] {
			t.Errorf("%s is %q, want %q", fields[0], fields[1]+" "+fields[2], w)
		}
	}
	var rows []optionRow
	if err := json.Unmarshal([]byte(runProgram(t.Context(), env, append(args, "--json")...).stdout), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(config.Options()) || rows[0].Value != "postgres://app:xxxxx@db/x" || rows[0].Env != "WAYBILL_STORE" {
		t.Errorf("--json gives %+v", rows[0])
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if r := runProgram(t.Context(), nil, "version"); r.code != exitOK || !strings.HasPrefix(r.stdout, "waybill ") {
		t.Errorf("exit code %d, %q", r.code, r.stdout)
	}
	var row buildRow
	if err := json.Unmarshal([]byte(runProgram(t.Context(), nil, "version", "--json").stdout), &row); err != nil || row.Go == "" {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestBuildRow: the line names the tag, and the commit if the program was built in a repository.
func TestBuildRow(t *testing.T) {
	t.Parallel()
	row := buildRow{Version: "v0.1.0", Go: "go1.26.0", Platform: "linux/amd64"}
	if got := row.String(); got != "waybill v0.1.0 go1.26.0 linux/amd64" {
		t.Errorf("String() = %q", got)
	}
	row.Revision = "0afc84207e41"
	if got := row.String(); got != "waybill v0.1.0 commit 0afc84207e41 go1.26.0 linux/amd64" {
		t.Errorf("String() = %q with a commit", got)
	}
}

// TestMigrate_Says: what was done, and whether anything was.
func TestMigrate_Says(t *testing.T) {
	t.Parallel()
	at := []string{"--store", "sqlite:" + filepath.Join(t.TempDir(), "w.db")}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"migrate", "--to", "2"}, "Created the tables; the schema has version 2.\n"},
		{[]string{"migrate", "--to", "2"}, "Nothing to migrate: the schema has version 2.\n"},
		{[]string{"migrate"}, "Migrated the schema from version 2 to ….\n"},
		{[]string{"migrate"}, "Nothing to migrate: the schema has version ….\n"},
	} {
		r := runProgram(t.Context(), nil, append(tt.args, at...)...)
		if r.code != exitOK || !matches(r.stdout, tt.want) {
			t.Errorf("%v: exit code %d, %q%s, want %q", tt.args, r.code, r.stdout, r.stderr, tt.want)
		}
	}
}

// TestMigratePrint_From: the steps behind a version, which are those that a pipeline has to run.
func TestMigratePrint_From(t *testing.T) {
	t.Parallel()
	printed := func(args ...string) string {
		r := runProgram(t.Context(), nil, append([]string{"migrate", "--print", "--store", "sqlite:none.db"}, args...)...)
		if r.code != exitOK {
			t.Fatalf("%v: %s", args, r.stderr)
		}
		return r.stdout
	}
	whole, first := printed(), printed("--to", "3")
	if rest := printed("--from", "3"); first+rest != whole || rest == "" {
		t.Error("what leads to version 3 and what leads from it are not what leads to the newest")
	}
	if got := printed("--from", "2", "--to", "3"); !strings.HasPrefix(got, "-- 003_") || !strings.HasSuffix(first, got) {
		t.Errorf("from 2 to 3: %q", got)
	}
	for _, args := range [][]string{{"migrate", "--from", "3"}, {"migrate", "--print", "--from", "4", "--to", "3"}, {"migrate", "--print", "--from", "-1"}} {
		if r := runProgram(t.Context(), nil, append(args, "--store", "sqlite:none.db")...); r.code != exitUsage || !strings.Contains(r.stderr, "--from is") {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}

// migrate --print asks no server.
func TestMigratePrint(t *testing.T) {
	t.Parallel()
	store := "postgres://app:S3CR3T@" + closedPort(t) + "/x"
	r := runProgram(t.Context(), nil, "migrate", "--print", "--store", store, "--schema", `way"bill`)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("exit code %d, %s", r.code, r.stderr)
	}
	for _, want := range []string{"-- 001_messages\n", `CREATE SCHEMA IF NOT EXISTS "way""bill";`, `CREATE TABLE "way""bill"."outbox" (`} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("output lacks %q", want)
		}
	}
}
