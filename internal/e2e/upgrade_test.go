package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/dashboard"
	"github.com/waybill-go/waybill/store/pgstore"
)

const version1Dir = "testdata/version1"

// TestRollingUpgrade changes the schema under a running process of the release before: writer,
// relay and consumer of version 1, built from its own code. It goes on; then one of today joins
// it; then the old one stops. Each committed order is handled once, whoever handles it.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	older, newer := filepath.Join(programs, "older"), filepath.Join(programs, "newer")
	buildVersion1(t, older)
	goBuild(t, ".", newer, "./"+version1Dir)

	u := newUpgrade(t)
	stopOld := u.start(t, older, "old")
	eventually(t, "the old release handles orders", func() bool { return u.handledBy(t, "old") >= 50 })
	u.shows(t, "/", "1 relay alive") // of a schema that is too old for the rest
	if v, err := u.store.Migrate(t.Context(), pgstore.MigrateOptions{}); err != nil || v != pgstore.MinSchemaVersion {
		t.Fatalf("Migrate() under traffic = %d, %v, want %d while an old relay is alive", v, err, pgstore.MinSchemaVersion)
	}
	sofar, orders := u.handledBy(t, "old"), u.count(t, "SELECT count(*) FROM {s}.orders")
	eventually(t, "the old release goes on with the new schema", func() bool {
		return u.handledBy(t, "old") >= sofar+100 && u.count(t, "SELECT count(*) FROM {s}.orders") >= orders+100
	})
	u.looked(t, "old")
	stopNew := u.start(t, newer, "new")
	eventually(t, "both are at work", func() bool { return u.handledBy(t, "new") >= 50 && u.count(t, "SELECT count(*) FROM {s}.relays") == 2 })
	u.looked(t, "new")
	stopOld()
	if v, err := u.store.Migrate(t.Context(), pgstore.MigrateOptions{}); err != nil || v != len(u.store.Migrations()) {
		t.Fatalf("Migrate() without the old release = %d, %v", v, err)
	}
	alone := u.handledBy(t, "new")
	eventually(t, "the new release goes on alone", func() bool { return u.handledBy(t, "new") >= alone+50 })
	u.looked(t, "new")
	stopNew()
	stopNew = u.start(t, newer, "drain") // what was in flight when they stopped
	eventually(t, "every order is handled or dead-lettered", func() bool { return u.open(t) == 0 })
	stopNew()
	u.balance(t)
}

// upgrade is a schema that begins as version 1 made it, with the tables of a shop.
type upgrade struct {
	*world
	schema string
	store  *pgstore.Store[pgx.Tx]
	broker brokerSettings

	dashboard *dashboard.Dashboard
}

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	w := plainWorld(t)
	u := &upgrade{world: w, schema: w.schema + "_u", broker: newBroker(t, "nats")}
	var err error
	if u.store, err = pgstore.New(w.pool, pgstore.Config{Schema: u.schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := u.store.Migrate(t.Context(), pgstore.MigrateOptions{Version: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.Background(), u.sql("DROP SCHEMA {s} CASCADE")); err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	u.dashboard, err = dashboard.New(u.store, dashboard.Config{AllowLoopback: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, u.sql("CREATE TABLE {s}.orders (id text PRIMARY KEY, kind text)"))
	w.exec(t, u.sql("CREATE TABLE {s}.effects (id text, handler text)"))
	return u
}

func (u *upgrade) sql(text string) string {
	return strings.ReplaceAll(text, "{s}", pgx.Identifier{u.schema}.Sanitize())
}

func (u *upgrade) count(t *testing.T, text string, args ...any) int {
	t.Helper()
	return u.number(t, u.sql(text), args...)
}

func (u *upgrade) handledBy(t *testing.T, name string) int {
	t.Helper()
	return u.count(t, "SELECT count(*) FROM {s}.effects WHERE handler = $1", name)
}

// open counts orders that have come to no end.
func (u *upgrade) open(t *testing.T) int {
	t.Helper()
	return u.count(t, `SELECT count(*) FROM {s}.orders o
		WHERE NOT EXISTS (SELECT FROM {s}.effects e WHERE e.id = o.id) AND NOT EXISTS (SELECT FROM {s}.dead_letters d WHERE d.id = o.id)`)
}

// looked reads the pages of a dashboard of today, which must find what the programs have made, the newest by the one named.
func (u *upgrade) looked(t *testing.T, newest string) {
	t.Helper()
	for path, want := range map[string]string{
		"/": "published per minute", "/messages?topic=orders&status=Published": newest + "-", "/dead": "no such customer", "/dead/list": "_to.nobody",
		"/replays": "Replays", "/relays": "Relays", "/consumers": "billing", "/audit": "Audit log",
	} {
		u.shows(t, path, want)
	}
}

// shows expects a text on a page of the dashboard.
func (u *upgrade) shows(t *testing.T, path, want string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
	r.RemoteAddr = "127.0.0.1:1"
	answer := httptest.NewRecorder()
	u.dashboard.ServeHTTP(answer, r)
	if page := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(page, want) {
		t.Errorf("GET %s: %d, want a page that shows %q:\n%s", path, answer.Code, want, page)
	}
}

// balance draws up what became of the orders.
func (u *upgrade) balance(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"orders handled twice":                                  `SELECT count(*) - count(DISTINCT id) FROM {s}.effects`,
		"effects without an order":                              `SELECT count(*) FROM {s}.effects e WHERE NOT EXISTS (SELECT FROM {s}.orders o WHERE o.id = e.id)`,
		"orders that were to be handled, and are not":           `SELECT count(*) FROM {s}.orders o WHERE kind IN ('plain', 'twice') AND NOT EXISTS (SELECT FROM {s}.effects e WHERE e.id = o.id)`,
		"poison without a letter of the consumer":               `SELECT count(*) FROM {s}.orders o WHERE kind = 'poison' AND NOT EXISTS (SELECT FROM {s}.dead_letters d WHERE d.id = o.id AND origin = 'consumer')`,
		"messages to nowhere without a relay's letter":          `SELECT count(*) FROM {s}.orders o WHERE kind = 'nowhere' AND NOT EXISTS (SELECT FROM {s}.dead_letters d WHERE d.id = o.id AND origin = 'relay')`,
		"letters of orders that had their effect":               `SELECT count(*) FROM {s}.dead_letters d JOIN {s}.effects e USING (id)`,
		"messages that are neither published nor dead-lettered": `SELECT count(*) FROM {s}.messages WHERE status NOT IN ('Published', 'Dead')`,
	} {
		if n := u.count(t, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	t.Logf("%d orders, %d handled by the old release, %d by the new one", u.count(t, "SELECT count(*) FROM {s}.orders"),
		u.handledBy(t, "old"), u.handledBy(t, "new")+u.handledBy(t, "drain"))
}

// start runs a program and returns a function that stops it gracefully.
func (u *upgrade) start(t *testing.T, program, name string) (stop func()) {
	t.Helper()
	cmd := exec.Command(program, name, u.dsn, u.schema, u.broker.URL, u.broker.Name)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = input.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v: %s", name, err, complaint.String())
			}
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Errorf("%s did not stop within %v", name, patience)
		}
	}
	t.Cleanup(stop)
	return stop
}

// buildVersion1 builds the program with the code of the release of version 1.
func buildVersion1(t *testing.T, to string) {
	t.Helper()
	dir := t.TempDir()
	unpack(t, filepath.Join(version1Dir, "source.tar.gz"), dir)
	if err := os.CopyFS(filepath.Join(dir, "version1"), os.DirFS(version1Dir)); err != nil {
		t.Fatal(err)
	}
	goBuild(t, dir, to, "-tags", "version1", "./version1")
}

func goBuild(t *testing.T, dir, to string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", to}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", args, err, out)
	}
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(zipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && header.Typeflag == tar.TypeReg {
			err = unpackFile(filepath.Join(dir, filepath.FromSlash(header.Name)), files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpackFile(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
