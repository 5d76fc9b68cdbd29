package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"sync"

	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/sqldb"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// loadMigrations reads the migrations once; each store fills in its names when it runs them.
var loadMigrations = sync.OnceValues(func() ([]migrate.Migration, error) { return migrate.Load(migrationFiles, "migrations") })

// MinSchemaVersion is the oldest schema version that this release works with; the newest is
// the number of its last migration.
const MinSchemaVersion = 14

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
}

// Migrate migrates the schema, in one transaction, so that several processes may call it at once.
// It returns the version that the schema has now.
func (s *Store) Migrate(ctx context.Context, opts MigrateOptions) (int, error) {
	target, err := migrate.Target(s.migrations, opts.Version)
	if err != nil {
		return 0, err
	}
	if err := migrate.CheckSource(opts.Source); err != nil {
		return 0, err
	}
	if _, err := s.core.DB.Exec(ctx, s.sql.CreateVersions); err != nil {
		return 0, s.core.Kind(fmt.Errorf("migrate: %w", err))
	}
	version := 0
	err = s.core.InTx(ctx, func(_ *sql.Tx, conn sqldb.Conn) (err error) {
		version, err = s.migrate(ctx, conn, target, opts.Source)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

func (s *Store) migrate(ctx context.Context, conn sqldb.Conn, target int, source string) (int, error) {
	version, err := s.readVersion(ctx, conn)
	if err != nil {
		return 0, err
	}
	version, err = migrate.Up(s.Migrations(), version, target, func(stmt string) error {
		_, err := conn.Exec(ctx, stmt)
		return err
	})
	if err == nil && source != "" {
		_, err = conn.Exec(ctx, s.sql.SetSource, source)
	}
	return version, err
}

func (s *Store) readVersion(ctx context.Context, conn sqldb.Conn) (int, error) {
	rows, err := conn.Query(ctx, s.sql.ReadVersion)
	version, _, err := sqldb.One(rows, err, sqldb.Scan[int])
	return version, err
}

// SchemaVersion returns the version of the schema in the database, 0 if there is none, and
// an error if this release cannot work with it.
func (s *Store) SchemaVersion(ctx context.Context) (int, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.VersionsExist, s.names.prefix+"schema_versions")
	exists, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || !exists {
		return 0, s.core.Kind(err)
	}
	version, err := s.readVersion(ctx, s.core.DB)
	if err != nil {
		return 0, s.core.Kind(err)
	}
	return version, migrate.CheckVersion(s.migrations, version, MinSchemaVersion)
}
