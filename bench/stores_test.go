package main

import (
	"context"
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"
)

// databases opens each kind of database, as an experiment does.
func databases(t *testing.T, do func(t *testing.T, d *database)) {
	t.Helper()
	for name, open := range map[string]func(context.Context, *bench) (*database, error){"MariaDB": openMariaDB, "SQLite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := open(t.Context(), openTestBench(t))
			if err != nil {
				t.Fatalf("%v (scripts/services.sh up starts the servers)", err)
			}
			t.Cleanup(d.close)
			do(t, d)
		})
	}
}

// count returns how many rows each table has that contenders fill.
func (d *database) count(t *testing.T) map[string]int {
	t.Helper()
	rows := make(map[string]int)
	for _, table := range filled {
		var n int
		if err := d.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		rows[table] = n
	}
	return rows
}

// TestStores_Stored: each contender stores what its row says, and nothing else.
func TestStores_Stored(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, d *database) {
		m := d.arrival()
		again := func(ctx context.Context) error { return d.handleOnceByHand(ctx, m) }
		for _, c := range []struct {
			name string
			do   func(context.Context) error
			in   []string // tables that have a row then
		}{
			{"plain", d.plain, []string{"business"}},
			{"by hand", d.writeByHand, []string{"business", "lean"}},
			{"InTx", d.inTx, []string{"business", "waybill_outbox"}},
			{"Enqueue", d.enqueue, []string{"business", "waybill_outbox"}},
			{"inbox", d.handle, []string{"business", "waybill_inbox"}},
			{"inbox by hand", d.handleByHand, []string{"business", "waybill_inbox"}},
			{"twice by hand", func(ctx context.Context) error { return twice(ctx, again) }, []string{"business", "waybill_inbox"}},
		} {
			if err := d.emptyAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.do(t.Context()); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			for table, n := range d.count(t) {
				if want := len(slices.DeleteFunc(slices.Clone(c.in), func(in string) bool { return in != table })); n != want {
					t.Errorf("%s: %s has %d rows, want %d", c.name, table, n, want)
				}
			}
		}
	})
}

func twice(ctx context.Context, do func(context.Context) error) error {
	if err := do(ctx); err != nil {
		return err
	}
	return do(ctx)
}

// TestStores_Drained: a backlog of more than one batch is empty afterwards, and archived by default.
func TestStores_Drained(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, d *database) {
		rows, err := d.compareDrains(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 4 || len(rows[0].figures) != 1 || len(rows[3].figures) != 2 {
			t.Errorf("compareDrains() = %+v, want 4 rows, those after the first compared with it", rows)
		}
		if left := d.count(t); left["lean"] != 0 || left["waybill_outbox"] != 0 {
			t.Errorf("left are %v, want no messages", left)
		}
	})
}

// TestStores_Removed: nothing is left of a database, also of one whose tables could not be made.
func TestStores_Removed(t *testing.T) {
	b := openTestBench(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openSQLite(ended, b); err == nil {
		t.Error("openSQLite() that is interrupted = nil, want an error")
	}
	lite, err := openSQLite(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	lite.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are the files %v (%v), want none", left, err)
	}

	maria, err := openMariaDB(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := maria.db.QueryRowContext(t.Context(), "SELECT database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	maria.close()
	server, err := sql.Open("mysql", b.mysql)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var left int
	err = server.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?", name).Scan(&left)
	if err != nil || left > 0 || !strings.HasPrefix(name, prefix) {
		t.Errorf("left are %d databases %s (%v), want none, with the prefix of bench", left, name, err)
	}
}
