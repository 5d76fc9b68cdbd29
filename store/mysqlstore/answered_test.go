package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// TestTransactionsEnd: a server that answers neither COMMIT nor ROLLBACK holds nobody up for good. When it answers its connection is
// free again.
func TestTransactionsEnd(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, test := range []struct{ fails, want error }{{nil, context.DeadlineExceeded}, {failed, failed}} {
		for name, driverOf := range map[string]func(*database) sqldb.Driver[*sql.Tx]{
			"plain":     func(d *database) sqldb.Driver[*sql.Tx] { return d },
			"of relays": func(d *database) sqldb.Driver[*sql.Tx] { return relaying{d} },
			"guarded":   func(d *database) sqldb.Driver[*sql.Tx] { return &guarded{database: d} },
		} {
			t.Run(fmt.Sprint(name, ", fails: ", test.fails), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					server := silent{answer: make(chan struct{})}
					db := sql.OpenDB(server)
					defer db.Close()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err := sqldb.InTx(ctx, driverOf(newDatabase(db)), func(*sql.Tx) error { return test.fails })
					if !errors.Is(err, test.want) {
						t.Errorf("InTx() = %v, want %v", err, test.want)
					}
					if n := db.Stats().InUse; n != 1 {
						t.Errorf("%d connections are in use before the answer, want 1", n)
					}
					close(server.answer)
					synctest.Wait()
					if n := db.Stats().InUse; n != 0 {
						t.Errorf("%d connections are in use after the answer, want none", n)
					}
				})
			})
		}
	}
}

// silent is a driver of a server that answers everything at once but COMMIT and ROLLBACK.
type silent struct{ answer chan struct{} }

func (s silent) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s silent) Driver() driver.Driver                        { return nil }

func (s silent) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (s silent) Close() error                        { return nil }
func (s silent) Begin() (driver.Tx, error)           { return s, nil }

func (s silent) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return s, nil }

func (s silent) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(0), nil
}

func (s silent) Commit() error {
	<-s.answer
	return nil
}

func (s silent) Rollback() error { return s.Commit() }
