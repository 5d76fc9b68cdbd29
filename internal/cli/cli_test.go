package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
)

// TestMain plays the parts that "waybill demo" starts as processes of their own, and fails if a test
// made a command read an option that is not among those of readBy.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "demo" {
		os.Exit(Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	var unlisted sync.Map
	watch = func(cmd *cobra.Command, key string) {
		if !readsOption(cmd, key) {
			unlisted.Store(cmd.CommandPath()+" reads the option "+key+", which its help does not show", true)
		}
	}
	code := m.Run()
	unlisted.Range(func(text, _ any) bool {
		fmt.Println(text)
		code = 1
		return true
	})
	os.Exit(code)
}

func postgresURL() string {
	if u := os.Getenv("POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
}

// transcript is one run of the program as a person would see it. "…" in the texts that are
// wanted stands for anything within a line, and words in braces for what [fixture.fill]
// knows.
type transcript struct {
	name   string
	args   string // split at blanks
	env    []string
	stdout string
	stderr string
	code   int
}

// check runs the program and compares.
func (tr transcript) check(t *testing.T, f *fixture) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), strings.Fields(f.fill(tr.args)), f.fillAll(tr.env), &stdout, &stderr)
	if code != tr.code {
		t.Errorf("exit code %d, want %d", code, tr.code)
	}
	matchText(t, "stdout", stdout.String(), f.fill(tr.stdout))
	matchText(t, "stderr", stderr.String(), f.fill(tr.stderr))
}

func matchText(t *testing.T, name, got, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$"
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

// fixture is what transcripts refer to.
type fixture struct{ words *strings.Replacer }

func (f *fixture) fill(text string) string { return f.words.Replace(text) }

func (f *fixture) fillAll(list []string) []string {
	filled := make([]string, len(list))
	for i, text := range list {
		filled[i] = f.fill(text)
	}
	return filled
}

// newFixture makes a schema with three messages and three dead letters, another one that is
// empty, a directory, and an address where nobody listens.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	database := newDatabase(t)
	used := opener.StoreConfig{URL: database, Schema: "cli-used"}
	empty := opener.StoreConfig{URL: database, Schema: "cli-empty"}
	fillStore(t, used)
	return &fixture{strings.NewReplacer(
		"{url}", used.URL,
		"{used}", "--store "+used.URL+" --schema "+used.Schema,
		"{empty}", "--store "+empty.URL+" --schema "+empty.Schema,
		"{closed}", closedPort(t),
		"{dir}", t.TempDir(),
	)}
}

// newDatabase makes a database for one test and returns its URL. Transactions of other tests
// are in others, so that the doctor does not see them.
func newDatabase(t *testing.T) string {
	t.Helper()
	name := "cli_" + waybill.NewID()[24:]
	u, err := url.Parse(postgresURL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	runSQL(t, postgresURL(), `CREATE DATABASE `+name)
	t.Cleanup(func() { runSQL(t, postgresURL(), `DROP DATABASE `+name+` WITH (FORCE)`) })
	return u.String()
}

func runSQL(t *testing.T, url, stmt string) {
	t.Helper()
	db, _, err := opener.OpenSQL(context.Background(), opener.StoreConfig{URL: url, Schema: "public"})
	if err != nil {
		t.Fatalf("PostgreSQL does not answer (%v); start it with: make services", err)
	}
	defer db.Close()
	if _, err := db.Exec(stmt); err != nil {
		t.Fatal(err)
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func fillStore(t *testing.T, cfg opener.StoreConfig) {
	t.Helper()
	db, store, err := opener.OpenSQL(t.Context(), cfg)
	if err != nil {
		t.Fatalf("PostgreSQL does not answer (%v); start it with: make services", err)
	}
	defer db.Close()
	if _, err := store.Migrate(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = w.Enqueue(t.Context(), tx,
		waybill.Message{ID: "order-1", Topic: "orders", Type: "order.placed", Key: "ann"},
		waybill.Message{ID: "order-2", Topic: "orders", Type: "order.placed"},
		waybill.Message{ID: "mail-1", Topic: "mails"})
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m := waybill.Message{ID: fmt.Sprintf("lost-%d", i+1), Topic: "orders", Source: "shop"}
		m.Complete()
		_, err := store.BuryMessage(t.Context(), inbox.Letter{
			Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no such\ncustomer", Attempts: i + 1,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func dropSchema(t *testing.T, cfg opener.StoreConfig) {
	db, _, err := opener.OpenSQL(context.Background(), cfg)
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	if _, err := db.Exec(`DROP SCHEMA IF EXISTS "` + cfg.Schema + `" CASCADE`); err != nil {
		t.Errorf("drop schema: %v", err)
	}
}
