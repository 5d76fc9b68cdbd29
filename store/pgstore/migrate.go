package pgstore

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/pgname"
	"github.com/waybill-go/waybill/internal/sqldb"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// loadMigrations reads the migrations once; each store fills in its names when it runs them.
var loadMigrations = sync.OnceValues(func() ([]migrate.Migration, error) { return migrate.Load(migrationFiles, "migrations") })

// MinSchemaVersion is the oldest schema version that this release works with; the newest is
// the number of its last migration.
const MinSchemaVersion = 16

// Migration is one step of the schema.
type Migration = migrate.Migration

// Migrations returns every step that this release knows, in order, with the table names of
// this store: what waybill migrate --print shows.
func (s *Store[Tx]) Migrations() []Migration {
	return migrate.Rendered(s.migrations, s.engine.names.render)
}

// MigrateOptions configure [Store.Migrate].
type MigrateOptions struct {
	// Source becomes the source of messages that foreign programs enqueue without naming
	// one. Optional; without it an earlier setting stays, at first the empty text.
	Source string

	// Version is the version to stop at. Optional; the default is the newest.
	Version int

	// LockWait is how long to wait for another migration of the database. Optional; the default is a minute.
	LockWait time.Duration
}

// Migrate migrates the schema, in one transaction under a lock, so that several processes may call it at
// once, and while others work with the schema. It returns the version that the schema has now. Step 17 is
// left for a later call while a relay of a version before 15 is alive.
//
// It locks the tables that it changes before it begins: for the first it waits two seconds, for the
// others half a second each, less than PostgreSQL takes to see a deadlock and to end somebody else's
// transaction. The outbox is the first; if it waits in vain for a table everything is rolled back, so that
// those who wait behind it go on, and restarted a second later with that table. After ten attempts Migrate
// stops, and has changed nothing; the error is a conflict. It is also a conflict, and names the session, if
// another one holds the migration lock for longer than LockWait.
func (s *Store[Tx]) Migrate(ctx context.Context, opts MigrateOptions) (int, error) {
	target, err := migrate.Target(s.migrations, opts.Version)
	if err != nil {
		return 0, err
	}
	version, order := 0, slices.Clone(changedTables)
	err = migrate.Repeat(ctx, func() error {
		version, err = s.migrateTo(ctx, target, opts, order)
		return err
	})
	if errors.Is(err, errMigrationLock) {
		err = waybill.ConflictError(fmt.Errorf("%w: %s", err, s.migrationHolder(ctx)))
	}
	if err != nil {
		return 0, s.engine.core.Kind(fmt.Errorf("migrate schema %s: %w", s.engine.names.schema, err))
	}
	if version < MinSchemaVersion {
		return version, nil
	}
	err = migrate.Repeat(ctx, func() error {
		err := s.engine.addPartitions(ctx, contract.MaintainRequest{}, &contract.Maintained{})
		if errors.Is(err, errBusy) { // the relay that maintains the archive adds them
			return nil
		}
		return s.engine.core.Kind(err)
	})
	return version, err
}

// migrateTo does all of it, or nothing. The tables are locked in the given order, which it changes to that
// of the next attempt.
func (s *Store[Tx]) migrateTo(ctx context.Context, target int, opts MigrateOptions, order []string) (version int, err error) {
	err = s.engine.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if version, err = s.lockVersion(ctx, conn, cmp.Or(opts.LockWait, migrate.LockWait)); err != nil {
			return err
		}
		if err = limitLockWait(ctx, conn, firstWait); err != nil {
			return err
		}
		if version < min(target, MinSchemaVersion) { // later steps may have nothing to do yet, and lock the outbox first
			if err = s.lockTables(ctx, conn, order); err != nil {
				return err
			}
		}
		_, err = migrate.Up(s.Migrations(), version, target, func(stmt string) error {
			_, err := conn.Exec(ctx, stmt)
			return err
		})
		if err != nil {
			return err
		}
		if version, err = s.version(ctx, conn); err != nil { // the last step may have been left for later
			return err
		}
		return s.setSource(ctx, conn, opts.Source)
	})
	return version, err
}

// How long a migration waits for the first table, while it holds nothing, and for another.
const (
	firstWait = 2 * time.Second
	tableWait = 500 * time.Millisecond
)

var errMigrationLock = errors.New("another session holds the lock of migrations")

// changedTables are the tables that steps change. The outbox comes first, because business transactions hold
// it for as long as they run: a session that waits while it holds nothing is part of no deadlock.
var changedTables = []string{"{outbox}", "{outbox_waiting}", "{outbox_ids}", "{scheduled}", "{schedules}", "{relays}",
	"{dead_letters}", "{consumer_attempts}", "{inbox_leases}"}

// lockTables takes every lock that the steps need, in the given order. While a session waits for a table,
// every later request for that table waits behind it. A table that it waits for in vain comes first the next
// time: its holder may be waiting for one that was locked here, and would be again.
func (s *Store[Tx]) lockTables(ctx context.Context, conn sqldb.Conn, order []string) error {
	for i, name := range order {
		table := s.engine.names.render(name)
		exists, err := s.tableExists(ctx, conn, table)
		if err == nil && exists {
			_, err = conn.Exec(ctx, "LOCK TABLE "+table)
		}
		if lockTimedOut(err) {
			copy(order[1:], order[:i])
			order[0] = name
		}
		if err == nil {
			err = limitLockWait(ctx, conn, tableWait)
		}
		if err != nil {
			return fmt.Errorf("lock %s: %w", table, err)
		}
	}
	return nil
}

func limitLockWait(ctx context.Context, conn sqldb.Conn, wait time.Duration) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, wait.Milliseconds()))
	return err
}

func (s *Store[Tx]) tableExists(ctx context.Context, conn sqldb.Conn, table string) (bool, error) {
	rows, err := conn.Query(ctx, s.engine.sql.TableExists, table)
	exists, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	return exists, err
}

func (s *Store[Tx]) lockVersion(ctx context.Context, conn sqldb.Conn, wait time.Duration) (int, error) {
	if err := limitLockWait(ctx, conn, wait); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, s.engine.sql.LockMigration); lockTimedOut(err) {
		return 0, fmt.Errorf("%w, after %v", errMigrationLock, wait)
	} else if err != nil {
		return 0, err
	}
	return s.version(ctx, conn)
}

// migrationHolder describes the session that holds the migration lock.
func (s *Store[Tx]) migrationHolder(ctx context.Context) string {
	rows, err := s.engine.core.DB.Query(ctx, s.engine.sql.MigrationHolder)
	who, found, err := sqldb.One(rows, err, func(r sqldb.Rows) (string, error) {
		var pid int
		var user, application string
		err := r.Scan(&pid, &user, &application)
		return fmt.Sprintf("pid %d, user %s, application %q; if it does not migrate, end it with pg_terminate_backend(%d)", pid, user, application, pid), err
	})
	if err != nil || !found {
		return "it has been released meanwhile, or cannot be seen; try again"
	}
	return who
}

// version returns the version in the database, 0 if there is no schema.
func (s *Store[Tx]) version(ctx context.Context, conn sqldb.Conn) (int, error) {
	exists, err := s.tableExists(ctx, conn, s.engine.names.render("{schema_versions}"))
	if err != nil || !exists {
		return 0, err
	}
	rows, err := conn.Query(ctx, s.engine.sql.ReadVersion)
	version, _, err := sqldb.One(rows, err, sqldb.Scan[int])
	return version, err
}

func (s *Store[Tx]) setSource(ctx context.Context, conn sqldb.Conn, source string) error {
	if source == "" {
		return nil
	}
	if err := migrate.CheckSource(source); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, strings.Replace(s.engine.sql.SetSource, "{source}", pgname.QuoteText(source), 1))
	if err == nil {
		_, err = conn.Exec(ctx, strings.Replace(s.engine.sql.SetDefaultSource, "{definition}", pgname.QuoteText("SELECT "+pgname.QuoteText(source)), 1))
	}
	return err
}

// SchemaVersion returns the version of the schema in the database, 0 if there is none, and
// an error if this release cannot work with it.
func (s *Store[Tx]) SchemaVersion(ctx context.Context) (int, error) {
	version, err := s.version(ctx, s.engine.core.DB)
	if err != nil || version == 0 {
		return 0, s.engine.core.Kind(err)
	}
	return version, migrate.CheckVersion(s.migrations, version, MinSchemaVersion)
}
