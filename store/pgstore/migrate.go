package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/relay"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// MinSchemaVersion is the oldest schema version that this release works with; the newest is
// the number of its last migration.
const MinSchemaVersion = 12

// Migration is one step of the schema.
type Migration = migrate.Migration

// Migrations returns every step that this release knows, in order, with the table names of
// this store: what waybill migrate --print shows.
func (s *Store[Tx]) Migrations() []Migration { return s.migrations }

// MigrateOptions are what [Store.Migrate] may be told.
type MigrateOptions struct {
	// Source becomes the source of messages that foreign programs enqueue without naming
	// one. Optional; without it an earlier setting stays, at first the empty text.
	Source string

	// Version is the version to stop at. Optional; the default is the newest.
	Version int
}

// Migrate brings the schema up to date, in one transaction under a lock, so that several
// processes may call it at once, and while others work with the schema. It returns the version that
// the schema has now.
//
// A step that meets a deadlock, or waits for longer than two seconds for a lock that somebody else
// has, is undone with the whole transaction, so that those who wait behind it go on, and begun again
// a second later. After ten times Migrate gives up, and has changed nothing; the error is a conflict.
func (s *Store[Tx]) Migrate(ctx context.Context, opts MigrateOptions) (int, error) {
	target, err := migrate.Target(s.migrations, opts.Version)
	if err != nil {
		return 0, err
	}
	version := 0
	err = migrate.Repeat(ctx, func() error {
		version, err = s.migrateTo(ctx, target, opts.Source)
		return err
	})
	if err != nil {
		return 0, s.core.Kind(fmt.Errorf("migrate schema %s: %w", s.names.schema, err))
	}
	if version < MinSchemaVersion {
		return version, nil
	}
	err = migrate.Repeat(ctx, func() error {
		err := s.addPartitions(ctx, relay.MaintainRequest{}, &relay.Maintained{})
		if errors.Is(err, errBusy) { // who maintains the archive adds them
			return nil
		}
		return s.core.Kind(err)
	})
	return version, err
}

// migrateTo does all of it, or nothing.
func (s *Store[Tx]) migrateTo(ctx context.Context, target int, source string) (version int, err error) {
	err = s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if version, err = s.lockVersion(ctx, conn); err != nil {
			return err
		}
		if _, err = conn.Exec(ctx, migrationWaitSQL); err != nil {
			return err
		}
		version, err = migrate.Up(s.migrations, version, target, func(stmt string) error {
			_, err := conn.Exec(ctx, stmt)
			return err
		})
		if err != nil {
			return err
		}
		return s.setSource(ctx, conn, source)
	})
	return version, err
}

const (
	// migrationWaitSQL comes behind the lock of migrations, which may take as long as another one.
	// While a statement waits for a table, everybody else who comes for that table waits behind it.
	migrationWaitSQL = `SET LOCAL lock_timeout = '2s'`

	// lockMigrationSQL keeps other migrations of the database out until the transaction ends.
	lockMigrationSQL = `SELECT pg_advisory_xact_lock(hashtext('waybill migrate'))`

	versionsExistSQL = `SELECT to_regclass($1) IS NOT NULL`
	readVersionSQL   = `SELECT coalesce(max(version), 0) FROM {schema_versions}`
)

func (s *Store[Tx]) lockVersion(ctx context.Context, conn sqldb.Conn) (int, error) {
	if _, err := conn.Exec(ctx, lockMigrationSQL); err != nil {
		return 0, err
	}
	return s.version(ctx, conn)
}

// version returns the version in the database, 0 if there is no schema.
func (s *Store[Tx]) version(ctx context.Context, conn sqldb.Conn) (int, error) {
	rows, err := conn.Query(ctx, versionsExistSQL, s.names.render("{schema_versions}"))
	exists, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || !exists {
		return 0, err
	}
	rows, err = conn.Query(ctx, s.names.render(readVersionSQL))
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
	_, err := conn.Exec(ctx, s.names.render(`ALTER TABLE {outbox} ALTER COLUMN source SET DEFAULT `)+quoteText(source))
	return err
}

// SchemaVersion returns the version of the schema in the database, 0 if there is none, and
// an error if this release cannot work with it.
func (s *Store[Tx]) SchemaVersion(ctx context.Context) (int, error) {
	version, err := s.version(ctx, s.core.DB)
	if err != nil || version == 0 {
		return 0, s.core.Kind(err)
	}
	return version, migrate.CheckVersion(s.migrations, version, MinSchemaVersion)
}
