package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cloudevents"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// contractPrograms copies the programs for the SQL contract into a directory, for the tables of a schema.
func contractPrograms(t *testing.T, schema string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"once.py", "once.mjs"} {
		program, err := os.ReadFile("../../examples/inbox-sql/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(program), "waybill.inbox_record", schema+".inbox_record")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wireOf is a message as a program in another language has it from a broker.
func wireOf(t *testing.T, m *waybill.Message) []byte {
	t.Helper()
	event := map[string]string{}
	cloudevents.Each(m, func(name, value string) { event[name] = value })
	wire, err := json.Marshal(map[string]any{"event": event, "body": string(m.Payload)})
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// TestInboxSQLLanguages: of a Go consumer and programs in Python and Node, one handles a message, whoever
// gets it first, in its own transaction.
func TestInboxSQLLanguages(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	programs := contractPrograms(t, w.schema)
	w.exec(t, "CREATE TABLE "+w.table("charges")+" (id text)")
	env := []string{"PROGRAMS=" + programs, "PGOPTIONS=-c search_path=" + w.schema}
	order := []string{".go", ".py", ".mjs"}
	for i, first := range order {
		m := waybill.Message{ID: "it's " + first, IdempotencyKey: "pay:" + first, Tenant: "acme", Source: "shop", Type: "order.placed@v2", Topic: "orders", Payload: []byte(`{"ü":"\n"}`)}
		m.Complete()
		other := m
		other.Payload = []byte("{}")
		ask := func(extension string, m *waybill.Message, args ...string) string {
			if extension == ".go" {
				outcome, err := w.store.ProcessOnce(t.Context(), inbox.RecordOf("billing", m), func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO "+w.table("charges")+" VALUES ($1)", m.ID)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return strings.Replace(outcome.String(), "processed", "new", 1)
			}
			return strings.TrimSpace(otherLanguage(t, wireOf(t, m), env, "testdata/inboxsql/handle"+extension, append([]string{strings.Split(w.dsn, "?")[0]}, args...)...))
		}
		if first != ".go" {
			if got := ask(first, &m, "card declined"); got != "card declined" {
				t.Errorf("%s fails with %q", first, got)
			}
		}
		want := "new"
		for _, extension := range append(slices.Clone(order[i:]), order[:i]...) {
			if got := ask(extension, &m); got != want {
				t.Errorf("first is %s, %s says %q, want %q", first, extension, got, want)
			}
			if got := ask(extension, &other); got != "conflict" {
				t.Errorf("first is %s, %s says %q of another payload, want a conflict", first, extension, got)
			}
			want = "duplicate"
		}
		if n := w.number(t, "SELECT count(*) FROM "+w.table("charges")+" WHERE id = $1", m.ID); n != 1 {
			t.Errorf("first is %s: %d effects, want 1", first, n)
		}
	}
}

// TestInboxSQLPsql runs the page's example for psql twice: there is one invoice.
func TestInboxSQLPsql(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	page, err := os.ReadFile("../../docs/sql-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)\n```sql\n(BEGIN;\nSELECT waybill.inbox_record.*?)\n```\n").FindSubmatch(page)
	if example == nil {
		t.Fatal("the page has no example for psql")
	}
	w.exec(t, "CREATE TABLE "+w.table("invoices")+" (number int)")
	script := strings.NewReplacer("waybill.inbox_record", w.table("inbox_record"), "invoices", w.table("invoices")).Replace(string(example[1]))
	for range 2 {
		cmd := exec.CommandContext(t.Context(), "psql", strings.Split(w.dsn, "?")[0], "-v", "ON_ERROR_STOP=1", "-qAtX")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("invoices")); n != 1 {
		t.Errorf("%d invoices, want 1", n)
	}
}

// TestInboxSQLPythonSQLite: a Python program and a Go inbox on one file handle a message once.
func TestInboxSQLPythonSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := sqlitestore.New(db, sqlitestore.Config{})
	if err == nil {
		_, err = store.Migrate(t.Context(), sqlitestore.MigrateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	m := waybill.Message{ID: "one", Tenant: "acme", Source: "shop", Type: "order.placed@v2", Topic: "orders", Payload: []byte(`{}`)}
	m.Complete()
	for _, tc := range []struct{ arg, want string }{{"declined", "declined"}, {"", "new"}, {"", "duplicate"}} {
		args := []string{path}
		if tc.arg != "" {
			args = append(args, tc.arg)
		}
		if got := otherLanguage(t, wireOf(t, &m), nil, "testdata/inboxsql/sqlite.py", args...); got != tc.want+"\n" {
			t.Errorf("it says %q, want %q", got, tc.want)
		}
	}
	outcome, err := store.ProcessOnce(t.Context(), inbox.RecordOf("billing", &m), func(context.Context, *sql.Tx) error { return nil })
	if outcome != inbox.Duplicate || err != nil {
		t.Errorf("ProcessOnce() = %v, %v, want a duplicate", outcome, err)
	}
}
