package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/migrate"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// loadMigrations reads the migrations once; each store fills in its names when it runs them.
var loadMigrations = sync.OnceValues(func() ([]migrate.Migration, error) { return migrate.Load(migrationFiles, "migrations") })

// MinSchemaVersion is the oldest schema version that this release works with; the newest is
// the number of its last migration.
const MinSchemaVersion = 10

// Migration is one step of the schema.
type Migration = migrate.Migration

// Migrations returns every step that this release knows, in order, with the table names of
// this store: what waybill migrate --print shows.
func (s *Store) Migrations() []Migration { return migrate.Rendered(s.migrations, s.names.render) }

// MigrateOptions configure [Store.Migrate].
type MigrateOptions struct {
	// Source becomes the source of messages that foreign programs enqueue without naming
	// one. Optional; without it an earlier setting stays, at first the empty text.
	Source string

	// Version is the version to stop at. Optional; the default is the newest.
	Version int

	// LockWait is how long to wait for another migration on the server, in whole seconds. Optional; the default is a minute.
	LockWait time.Duration
}

// Migrate migrates the schema; only one process does so at once. It returns the version that the schema has
// now. After an interruption the next call continues where it stopped. The error is a conflict, and names the
// session, if another one holds the migration lock for LockWait.
func (s *Store) Migrate(ctx context.Context, opts MigrateOptions) (int, error) {
	target, err := migrate.Target(s.migrations, opts.Version)
	if err != nil {
		return 0, err
	}
	if err := migrate.CheckSource(opts.Source); err != nil {
		return 0, err
	}
	version := 0
	err = s.locked(ctx, cmp.Or(opts.LockWait, migrate.LockWait), func(conn *sql.Conn) (err error) {
		version, err = s.migrate(ctx, conn, target, opts.Source)
		return err
	})
	if err != nil {
		return 0, s.core.Kind(fmt.Errorf("migrate: %w", err))
	}
	return version, nil
}

// locked runs fn on a session that holds the migration lock.
func (s *Store) locked(ctx context.Context, wait time.Duration, fn func(conn *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var mine bool
	if err := conn.QueryRowContext(ctx, s.sql.MigrateLock, max(1, int(wait.Seconds()))).Scan(&mine); err != nil {
		return err
	}
	if !mine {
		return waybill.ConflictError(fmt.Errorf("another session holds the lock of migrations, after %v: %s", wait, s.migrateHolder(ctx, conn)))
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), s.sql.MigrateUnlock) // a lost session has no lock
	}()
	return fn(conn)
}

// migrateHolder describes the session that holds the migration lock.
func (s *Store) migrateHolder(ctx context.Context, conn *sql.Conn) string {
	var id int64
	var user, host string
	if err := conn.QueryRowContext(ctx, s.sql.MigrateHolder).Scan(&id, &user, &host); err != nil {
		return "it has been released meanwhile, or cannot be seen; try again"
	}
	return fmt.Sprintf("connection %d, user %s, host %s; if it does not migrate, end it with KILL %d", id, user, host, id)
}

func (s *Store) migrate(ctx context.Context, conn *sql.Conn, target int, source string) (int, error) {
	version, err := s.readVersion(ctx, conn)
	if err != nil {
		return 0, err
	}
	version, err = migrate.Up(s.Migrations(), version, target, func(stmt string) error {
		_, err := conn.ExecContext(ctx, stmt)
		if isColumnThere(err) { // of a migration that was interrupted behind this statement
			return nil
		}
		return err
	})
	if err == nil && source != "" {
		_, err = conn.ExecContext(ctx, strings.Replace(s.sql.SetSource, "{source}", hexText(source), 1))
	}
	return version, err
}

// hexText returns a text as a literal that every SQL mode reads in the same way.
func hexText(text string) string { return fmt.Sprintf("X'%x'", text) }

// querier is what *sql.DB and *sql.Conn have in common.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readVersion returns 0 if there is no schema.
func (s *Store) readVersion(ctx context.Context, on querier) (version int, err error) {
	var autocommit, exists bool
	if err := on.QueryRowContext(ctx, s.sql.Session).Scan(&autocommit); err != nil {
		return 0, err
	}
	if !autocommit {
		return 0, &waybill.InvalidError{Field: "db", Reason: "opens sessions with autocommit = 0; the store needs autocommit = 1, which is the default"}
	}
	if err := on.QueryRowContext(ctx, s.sql.VersionsExist, s.names.prefix+"schema_versions").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = on.QueryRowContext(ctx, s.sql.ReadVersion).Scan(&version)
	return version, err
}

// SchemaVersion returns the version of the schema in the database, 0 if there is none, and
// an error if this release cannot work with it, or with the sessions of db.
func (s *Store) SchemaVersion(ctx context.Context) (int, error) {
	version, err := s.readVersion(ctx, s.db)
	if err != nil || version == 0 {
		return 0, s.core.Kind(err)
	}
	return version, migrate.CheckVersion(s.migrations, version, MinSchemaVersion)
}
