package interleave_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/interleave"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// TestMySQL_Orders explores every scenario at each isolation level that sessions may have by default.
func TestMySQL_Orders(t *testing.T) {
	t.Parallel()
	atEachLevel(t, newMySQL, levels{{"REPEATABLE-READ", 12}, {"READ-COMMITTED", 5}, {"SERIALIZABLE", 5}})
}

func mysqlURL() string {
	if u := os.Getenv("MYSQL_URL"); u != "" {
		return u
	}
	return "root@tcp(127.0.0.1:3306)/"
}

// mysqlAt opens a pool with one connection to a database, at another address if one is given, whose sessions have some
// settings.
func mysqlAt(t *testing.T, database, at string, settings map[string]string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(mysqlURL())
	must(t, err)
	cfg.DBName, cfg.InterpolateParams, cfg.MultiStatements = database, true, true
	if at != "" {
		cfg.Addr = at
	}
	cfg.Params = settings
	db, err := sql.Open("mysql", cfg.FormatDSN())
	must(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func newMySQL(t *testing.T, level string) *env[*sql.Tx] {
	t.Helper()
	root := mysqlAt(t, "", "", nil)
	name := "i_" + strings.ReplaceAll(waybill.NewID(), "-", "")
	if _, err := root.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("MariaDB does not answer (%v); start it with: make services", err)
	}
	var version string
	must(t, root.QueryRowContext(t.Context(), "SELECT version()").Scan(&version))
	isolation, mariaDB := "transaction_isolation", strings.Contains(version, "MariaDB")
	if mariaDB {
		isolation = "tx_isolation"
	}
	t.Cleanup(func() {
		_, err := root.ExecContext(context.Background(), "DROP DATABASE "+name)
		must(t, err)
	})
	control, admin := mysqlAt(t, name, "", nil), mysqlAt(t, name, "", nil)
	store, err := mysqlstore.New(control, mysqlstore.Config{})
	must(t, err)
	_, err = store.Migrate(t.Context(), mysqlstore.MigrateOptions{LockWait: 5 * time.Minute})
	must(t, err)
	_, err = control.ExecContext(t.Context(), "CREATE TABLE effects (name VARCHAR(255))")
	must(t, err)

	// The tables that business transactions insert into are emptied at once: InnoDB keeps deleted rows for a while, and an insert of
	// the same id under repeatable read locks what comes behind such a row.
	e := sqlEnv(interleave.NewBoard(), control, "waybill_", "TRUNCATE TABLE waybill_outbox", "TRUNCATE TABLE waybill_outbox_ids", "TRUNCATE TABLE waybill_inbox")
	e.admin = sqlParty(admin, nil, openMySQL, mysqlConflict)
	cfg, err := mysql.ParseDSN(mysqlURL())
	must(t, err)
	var sessions []*sql.DB
	for range maxParties {
		gate, err := e.board.Gate(t.Context(), cfg.Addr, interleave.MySQL)
		must(t, err)
		db := mysqlAt(t, name, gate.Addr(), map[string]string{isolation: "'" + level + "'"})
		sessions = append(sessions, db)
		e.parties = append(e.parties, sqlParty(db, gate, openMySQL, mysqlConflict))
	}
	var threads []int
	e.connect = func(ctx context.Context) error {
		threads = threads[:0]
		for _, db := range sessions {
			var id int
			if err := db.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				return err
			}
			threads = append(threads, id)
		}
		return nil
	}
	e.waits = func(ctx context.Context) (map[int][]int, error) {
		return mysqlWaits(ctx, control, mariaDB, threads[:e.active])
	}
	return e
}

func openMySQL(db *sql.DB) (store[*sql.Tx], error) { return mysqlstore.New(db, mysqlstore.Config{}) }

// mysqlConflict marks a deadlock, and a lock that was not to be had, in the caller's own transaction.
func mysqlConflict(err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205) {
		return waybill.ConflictError(err)
	}
	return err
}

var (
	transaction = regexp.MustCompile(`(?m)^---TRANSACTION `)
	thread      = regexp.MustCompile(`M(?:ariaDB|ySQL) thread id (\d+)`)
)

// readersSQL asks MySQL which sessions that have written nothing wait for a lock: its status leaves them out. Of others the
// thread may be that of the one who has moved the lock.
const readersSQL = `
SELECT DISTINCT t.processlist_id FROM performance_schema.data_lock_waits w
  JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id
 WHERE w.requesting_engine_transaction_id >= 1 << 48`

// mysqlWaits asks which sessions wait for a lock. For whom they wait is not asked: the server ends a circle at once, so that
// it is for one that does not.
func mysqlWaits(ctx context.Context, control *sql.DB, mariaDB bool, threads []int) (map[int][]int, error) {
	ids, err := waitingByStatus(ctx, control)
	if err == nil && !mariaDB {
		ids, err = waitingReaders(ctx, control, ids)
	}
	if err != nil {
		return nil, err
	}
	waits := make(map[int][]int)
	for of, id := range threads {
		for other, otherID := range threads {
			if slices.Contains(ids, id) && !slices.Contains(ids, otherID) {
				waits[of] = append(waits[of], other)
			}
		}
	}
	return waits, nil
}

func waitingReaders(ctx context.Context, control *sql.DB, ids []int) ([]int, error) {
	rows, err := control.QueryContext(ctx, readersSQL)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// waitingByStatus reads the status: the tables of information_schema would be a tenth of a second old.
func waitingByStatus(ctx context.Context, control *sql.DB) (ids []int, err error) {
	var kind, name, status string
	if err := control.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
		return nil, err
	}
	_, status, _ = strings.Cut(status, "\nLIST OF TRANSACTIONS FOR EACH SESSION:\n") // which a long status may lack
	for _, tx := range transaction.Split(status, -1) {
		m := thread.FindStringSubmatch(tx)
		if m == nil || !strings.Contains(tx, "TRX HAS BEEN WAITING") {
			continue
		}
		id, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, fmt.Errorf("thread of a transaction: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
