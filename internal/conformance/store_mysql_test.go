package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/storetest"
)

//test:setup
func TestMySQLStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newMySQL(t, nil, mysqlstore.Config{}).harness())
}

//test:setup
func TestMySQLStore_Hostile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newMySQL(t, hostileMySQL(), mysqlstore.Config{TablePrefix: oddMySQLPrefix}).harness())
}

// oddMySQLPrefix has to be quoted.
const oddMySQLPrefix = "My \"pre`fix $1 ?2 %"

// hostileMySQL are settings of sessions that change what statements mean. MySQL takes what only
// MariaDB knows for a comment.
func hostileMySQL() url.Values {
	return url.Values{
		"sql_mode":          {`CONCAT('ANSI_QUOTES,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY,PIPES_AS_CONCAT,NO_ZERO_DATE' /*M! , ',SIMULTANEOUS_ASSIGNMENT' */)`},
		"time_zone":         {`'+09:00'`},
		"interpolateParams": {"true"}, "clientFoundRows": {"true"}, "parseTime": {"true"}, "loc": {"Asia/Tokyo"},
	}
}

func mysqlURL() string {
	if u := os.Getenv("MYSQL_URL"); u != "" {
		return u
	}
	return "root@tcp(127.0.0.1:3306)/"
}

// mysqlServer is a server for one run of the suite. Each test has a database of its own.
type mysqlServer struct {
	admin  *sql.DB
	params url.Values
	cfg    mysqlstore.Config
	free   chan *mysqlStore // with empty tables
}

func newMySQL(t *testing.T, params url.Values, cfg mysqlstore.Config) *mysqlServer {
	t.Helper()
	must(t, hushMySQL())
	admin, err := sql.Open("mysql", mysqlURL())
	must(t, err)
	if err := admin.Ping(); err != nil {
		t.Fatalf("MariaDB does not answer (%v); start it with: make services", err)
	}
	t.Cleanup(func() { admin.Close() })
	m := &mysqlServer{admin: admin, params: params, cfg: cfg, free: make(chan *mysqlStore, 1000)}
	t.Cleanup(func() {
		for len(m.free) > 0 {
			m.drop(t, <-m.free)
		}
	})
	return m
}

// hushMySQL keeps the driver from telling of each connection that a test has cut.
var hushMySQL = sync.OnceValue(func() error { return mysql.SetLogger(quiet{}) })

type quiet struct{}

func (quiet) Print(...any) {}

// mysqlStore is a store with its database.
type mysqlStore struct {
	*mysqlstore.Store
	server *mysqlServer
	db     *sql.DB
	name   string
	spent  []string // tables whose counters are near their end
}

func (s *mysqlStore) pool() *sql.DB { return s.db }

func (s *mysqlStore) exec(stmt string, args ...any) error {
	_, err := s.db.ExecContext(context.Background(), stmt, args...)
	return err
}

func (s *mysqlStore) table(name string) string {
	prefix := s.server.cfg.TablePrefix
	if prefix == "" {
		prefix = "waybill_"
	}
	return "`" + strings.ReplaceAll(prefix+name, "`", "``") + "`"
}

// open opens a store on the database with the given name.
func (m *mysqlServer) open(t *testing.T, name string) *mysqlStore {
	t.Helper()
	return m.openAt(t, name, "")
}

// openAt does so at another address than the server's own.
func (m *mysqlServer) openAt(t *testing.T, name, address string) *mysqlStore {
	t.Helper()
	cfg, err := mysql.ParseDSN(mysqlURL() + "?" + m.params.Encode())
	must(t, err)
	cfg.DBName, cfg.Addr = name, cmp.Or(address, cfg.Addr)
	db, err := sql.Open("mysql", cfg.FormatDSN())
	must(t, err)
	db.SetMaxOpenConns(12)
	db.SetMaxIdleConns(4)
	store, err := mysqlstore.New(db, m.cfg)
	must(t, err)
	return &mysqlStore{Store: store, server: m, db: db, name: name}
}

// rowQuerier is a database or a transaction.
type rowQuerier interface {
	QueryRow(stmt string, args ...any) *sql.Row
}

// innodbTrx queries information_schema.innodb_trx. InnoDB fills that table again only if it was not read
// for 0.1 s, so readers who come more often than that see no change, ever.
//
// Source: MariaDB, storage/innobase/trx/trx0i_s.cc.
type innodbTrx struct{ rowQuerier }

var innodbTrxRead sync.Mutex

func (q innodbTrx) QueryRow(stmt string, args ...any) *sql.Row {
	innodbTrxRead.Lock()
	defer innodbTrxRead.Unlock()
	<-time.After(200 * time.Millisecond)
	return q.rowQuerier.QueryRow(stmt, args...)
}

func (m *mysqlServer) drop(t *testing.T, s *mysqlStore) {
	t.Helper()
	s.db.Close()
	_, err := m.admin.Exec("DROP DATABASE `" + s.name + "`")
	must(t, err)
}

// create makes a database without tables.
func (m *mysqlServer) create(t *testing.T) *mysqlStore {
	t.Helper()
	name := "t_" + strings.ReplaceAll(waybill.NewID(), "-", "")
	_, err := m.admin.Exec("CREATE DATABASE `" + name + "`")
	must(t, err)
	return m.open(t, name)
}

// migrated returns a store for one test. Its database is used again by the next one, because
// emptying it takes a fraction of the time of making it; after a failure it is dropped.
func (m *mysqlServer) migrated(t *testing.T) *mysqlStore {
	t.Helper()
	var s *mysqlStore
	select {
	case s = <-m.free:
	default:
		s = m.create(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			m.drop(t, s)
			return
		}
		must(t, s.wipe())
		m.free <- m.reopen(t, s)
	})
	if version, err := s.SchemaVersion(context.Background()); version == 0 {
		must(t, err)
		_, err = s.Migrate(context.Background(), mysqlstore.MigrateOptions{LockWait: patience, Source: "raw"})
		must(t, err)
		must(t, s.exec("CREATE TABLE effects (name VARCHAR(255))"))
	}
	return s
}

// wipe empties the tables, and resets clock and lanes. The tables that business transactions
// insert into, and those whose counters are near their end, are made again: InnoDB keeps deleted rows for a while, and an insert of the same id
// under repeatable read locks what comes behind such a row, against everybody else's inserts.
func (s *mysqlStore) wipe() error {
	for _, name := range append([]string{"outbox", "outbox_ids", "inbox"}, s.spent...) {
		if _, err := s.db.Exec("TRUNCATE TABLE " + s.table(name)); err != nil {
			return err
		}
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	statements := []string{
		"DELETE FROM effects",
		"UPDATE " + s.table("settings") + " SET clock_offset_us = 0",
		"UPDATE " + s.table("relay_lanes") + " SET epoch = 0, owner = NULL, since = NULL",
	}
	for _, name := range []string{
		"outbox_waiting", "outbox_archive", "scheduled", "schedules", "sagas", "saga_log", "dead_letters",
		"audit_log", "inbox_leases", "idempotency_responses", "consumer_attempts", "consumer_offsets", "relays", "replays", "traffic",
	} {
		statements = append(statements, "DELETE FROM "+s.table(name))
	}
	for _, stmt := range statements {
		if _, err := tx.Exec(stmt); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// reopen closes a store and opens another one on its data.
func (m *mysqlServer) reopen(t *testing.T, s *mysqlStore) *mysqlStore {
	t.Helper()
	s.db.Close()
	return m.open(t, s.name)
}

func (m *mysqlServer) harness() storetest.Harness[*sql.Tx] {
	h := sqlHarness(storetest.Features{Lanes: 64, Traffic: true, ConcurrentWriters: true, Persists: true, InboxBatches: true, Offsets: true, Schedules: true, Sagas: true, EndsTransactions: true}, "`key`")
	h.Break = breakMySQL
	h.Exhaust = func(t *testing.T, s storetest.Store[*sql.Tx], c storetest.Counter, left int) {
		t.Helper()
		table := s.(*mysqlStore).table(string(c))
		must(t, s.(*mysqlStore).exec(fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", table, math.MaxInt64-left+1)))
		s.(*mysqlStore).spent = append(s.(*mysqlStore).spent, string(c))
	}
	h.Open = func(t *testing.T) storetest.Store[*sql.Tx] { return m.migrated(t) }
	h.Reopen = func(t *testing.T, s storetest.Store[*sql.Tx]) storetest.Store[*sql.Tx] {
		next := m.open(t, s.(*mysqlStore).name)
		t.Cleanup(func() { next.db.Close() })
		return next
	}
	return h
}

// breakMySQL runs tx into a deadlock with a transaction that has changed more rows, and that the
// server therefore spares.
func breakMySQL(ctx context.Context, s storetest.Store[*sql.Tx], tx *sql.Tx) error {
	db := s.(*mysqlStore).db
	_, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS deadlock (id INT PRIMARY KEY, n INT NOT NULL)")
	if err != nil {
		panic(err)
	}
	var rows strings.Builder
	for id := 2; id < 100; id++ {
		fmt.Fprintf(&rows, ", (%d, 0)", id)
	}
	if _, err = db.ExecContext(ctx, "INSERT IGNORE INTO deadlock VALUES (0, 0), (1, 0)"+rows.String()); err != nil {
		panic(err)
	}
	rival, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer rival.Rollback() // it has changed nothing that matters
	if _, err = rival.ExecContext(ctx, "UPDATE deadlock SET n = n + 1 WHERE id > 0"); err != nil {
		panic(err)
	}
	if _, err = tx.ExecContext(ctx, "UPDATE deadlock SET n = n + 1 WHERE id = 0"); err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = rival.ExecContext(ctx, "UPDATE deadlock SET n = n + 1 WHERE id = 0")
	}()
	_, err = tx.ExecContext(ctx, "UPDATE deadlock SET n = n + 1 WHERE id = 1")
	<-ended
	return err
}
