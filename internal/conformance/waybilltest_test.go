package conformance

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/waybilltest"
)

// shop is a subject on SQLite: an invoice and a message about it.
type shop struct {
	db     *sql.DB
	store  *sqlitestore.Store
	writer *outbox.Writer[*sql.Tx]
	mails  int
}

func openShop(t *testing.T, f *waybilltest.Faults) *shop {
	t.Helper()
	db, err := f.OpenDB("sqlite", ":memory:")
	must(t, err)
	db.SetMaxOpenConns(1)
	store, err := sqlitestore.New(db, sqlitestore.Config{})
	must(t, err)
	_, err = store.Migrate(t.Context(), sqlitestore.MigrateOptions{Source: "shop"})
	must(t, err)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE invoices (order_id text)")
	must(t, err)
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	must(t, err)
	return &shop{db: db, store: store, writer: writer}
}

// bill is the handler.
func (s *shop) bill(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?)", m.Subject); err != nil {
		return err
	}
	_, err := s.writer.Enqueue(ctx, tx, waybill.Message{Topic: "invoices"})
	return err
}

// effect counts invoices, messages and mails.
func (s *shop) effect(t *testing.T) [3]int {
	t.Helper()
	var counts [3]int
	row := s.db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM invoices), (SELECT count(*) FROM waybill_outbox)")
	must(t, row.Scan(&counts[0], &counts[1]))
	counts[2] = s.mails
	return counts
}

func (s *shop) subject(t *testing.T, handler func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error) waybilltest.Subject {
	t.Helper()
	return waybilltest.Subject{
		Deliver: waybilltest.Handle(s.store, "billing", handler),
		Message: waybill.Message{ID: "m-1", Subject: "o-17"},
		Effect:  func() any { return s.effect(t) },
	}
}

// TestWaybilltest_SQLite checks a handler that does everything in its transaction: no crash
// and no lost connection at a statement, the store's own or the handler's, makes a difference.
func TestWaybilltest_SQLite(t *testing.T) {
	t.Parallel()
	waybilltest.CheckOnce(t, func(f *waybilltest.Faults) waybilltest.Subject {
		s := openShop(t, f)
		return s.subject(t, s.bill)
	})
}

// TestWaybilltest_SQLiteAnswerLost has commits that have happened and look as if they had not.
func TestWaybilltest_SQLiteAnswerLost(t *testing.T) {
	t.Parallel()
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		s := openShop(t, f)
		subject := s.subject(t, s.bill)
		handle := subject.Deliver
		subject.Deliver = func(ctx context.Context, m *waybill.Message) error {
			err := handle(ctx, m)
			var n int
			if err != nil && s.db.QueryRowContext(ctx, "SELECT count(*) FROM invoices").Scan(&n) == nil && n > 0 {
				s.mails++ // what only a commit without an answer leads to
			}
			return err
		}
		return subject
	})
	wantFound(t, err, "CONNECTION LOST before: answer to COMMIT", "the effect is [1 1 1], want [1 1 0]")
}

// TestWaybilltest_SQLitePrepared has steps at prepared statements too.
func TestWaybilltest_SQLitePrepared(t *testing.T) {
	t.Parallel()
	var s *shop
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		s = openShop(t, f)
		return s.subject(t, func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
			s.mails++ // the bug
			stmt, err := tx.PrepareContext(ctx, "INSERT INTO invoices VALUES (?)")
			if err != nil {
				return err
			}
			defer stmt.Close()
			_, err = stmt.ExecContext(ctx, m.Subject)
			return err
		})
	})
	wantFound(t, err, "CRASH before: INSERT INTO invoices VALUES (?)", "the effect is [1 0 2], want [1 0 1]")
}

// TestWaybilltest_SQLiteFinds catches effects that do not share the transaction's fate.
func TestWaybilltest_SQLiteFinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler func(s *shop) func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error
		want    []string
	}{
		{"a mail before the commit", func(s *shop) func(context.Context, *sql.Tx, *waybill.Message) error {
			return func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
				err := s.bill(ctx, tx, m)
				if err == nil {
					s.mails++
				}
				return err
			}
		}, []string{"CRASH before: BEGIN /* fails within", "delivery 2, by a new process", "the effect is [1 1 2], want [1 1 1]"}},

		{"an error that is swallowed", func(s *shop) func(context.Context, *sql.Tx, *waybill.Message) error {
			return func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
				if err := s.bill(ctx, tx, m); err != nil {
					return waybill.PermanentError(waybill.ReasonRejected, err)
				}
				return nil
			}
		}, []string{"CONNECTION LOST before: INSERT INTO invoices", "permanent error", "the effect is [0 0 0], want [1 1 0]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
				s := openShop(t, f)
				return s.subject(t, tt.handler(s))
			})
			wantFound(t, err, tt.want...)
		})
	}
}

// TestWaybilltest_LostTransaction has everything after a fault fail, also for a handler that
// does not look at errors: a half of it must not be committed.
func TestWaybilltest_LostTransaction(t *testing.T) {
	t.Parallel()
	waybilltest.CheckOnce(t, func(f *waybilltest.Faults) waybilltest.Subject {
		s := openShop(t, f)
		return s.subject(t, func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
			_ = s.bill(ctx, tx, m)
			_, _ = tx.ExecContext(ctx, "INSERT INTO invoices VALUES ('second')")
			return nil
		})
	})
}

// TestWaybilltest_Drivers has the steps of a handler with an inbox of its own, on the servers'
// drivers: a plain statement, one with arguments, one that is prepared, and a query.
func TestWaybilltest_Drivers(t *testing.T) {
	t.Parallel()
	tests := []struct{ driver, dataSource, insert string }{
		{"pgx", postgresURL(), "INSERT INTO seen VALUES ($1)"},
		{"mysql", ownMySQL(t), "INSERT INTO seen VALUES (?)"},
	}
	for _, tt := range tests {
		t.Run(tt.driver, func(t *testing.T) {
			t.Parallel()
			steps := func(outside *int) func(f *waybilltest.Faults) waybilltest.Subject {
				return func(f *waybilltest.Faults) waybilltest.Subject {
					*outside = 0
					db, err := f.OpenDB(tt.driver, tt.dataSource)
					must(t, err)
					db.SetMaxOpenConns(1) // temporary tables are the connection's
					_, err = db.ExecContext(t.Context(), "CREATE TEMPORARY TABLE seen (id varchar(36) PRIMARY KEY)")
					must(t, err)
					_, err = db.ExecContext(t.Context(), "CREATE TEMPORARY TABLE effects (name varchar(36))")
					must(t, err)
					return waybilltest.Subject{
						Deliver: func(ctx context.Context, m *waybill.Message) error { return handleOnce(ctx, db, tt.insert, m.ID) },
						Effect: func() any {
							var n int
							must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&n))
							return n + *outside
						},
					}
				}
			}
			var outside int
			waybilltest.CheckOnce(t, steps(&outside))
			err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
				s := steps(&outside)(f)
				handle := s.Deliver
				s.Deliver = func(ctx context.Context, m *waybill.Message) error { outside++; return handle(ctx, m) }
				return s
			})
			wantFound(t, err, "the effect is 3, want 2")
		})
	}
}

// ownMySQL makes a database for the test and returns the name of its data source.
func ownMySQL(t *testing.T) string {
	t.Helper()
	m := newMySQL(t, nil, mysqlstore.Config{})
	s := m.create(t)
	t.Cleanup(func() { m.drop(t, s) })
	cfg, err := mysql.ParseDSN(mysqlURL())
	must(t, err)
	cfg.DBName = s.name
	return cfg.FormatDSN()
}

// handleOnce is a handler with an inbox written by hand.
func handleOnce(ctx context.Context, db *sql.DB, insert, id string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var seen int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM seen").Scan(&seen); err != nil || seen > 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, insert, id); err != nil {
		return err
	}
	stmt, err := tx.PrepareContext(ctx, "INSERT INTO effects VALUES ('x')")
	if err != nil {
		return err
	}
	defer stmt.Close()
	if _, err := stmt.ExecContext(ctx); err != nil {
		return err
	}
	return tx.Commit()
}

// TestWaybilltest_Documented holds docs/testing.md to what a check says.
func TestWaybilltest_Documented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/testing.md")
	must(t, err)
	err = waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		s := openShop(t, f)
		return waybilltest.Subject{
			Deliver: waybilltest.Handle(s.store, "billing", func(ctx context.Context, tx *sql.Tx, m *waybill.Message) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?)", m.Subject); err != nil {
					return err
				}
				if err := f.Step("send the mail"); err != nil {
					return err
				}
				s.mails++
				return nil
			}),
			Message: waybill.Message{ID: "m-1", Subject: "o-17"},
			Effect:  func() any { n := s.effect(t); return [2]int{n[0], n[2]} },
		}
	})
	if err == nil || !strings.Contains(string(page), "```\n"+err.Error()+"\n```") {
		t.Errorf("docs/testing.md does not show what the check says: %v", err)
	}
}

// TestWaybilltest_OpenDB refuses what can't be opened.
func TestWaybilltest_OpenDB(t *testing.T) {
	t.Parallel()
	if _, err := new(waybilltest.Faults).OpenDB("no such driver", ""); err == nil {
		t.Error("OpenDB() of an unknown driver = nil, want an error")
	}
	db, err := new(waybilltest.Faults).OpenDB("sqlite", "/no/such/directory/test.db")
	if err == nil {
		defer db.Close()
		err = db.PingContext(t.Context())
	}
	if err == nil || errors.Is(err, sql.ErrConnDone) {
		t.Errorf("Ping() = %v, want the driver's error", err)
	}
}

func wantFound(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("Check() = nil, want the schedule that shows the bug")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Check() = %v\nwant it to contain %q", err, part)
		}
	}
}
