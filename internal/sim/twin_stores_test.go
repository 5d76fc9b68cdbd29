package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	_ "modernc.org/sqlite"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/mongofake"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/mongostore"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// TestTwin_Mem: the store in memory answers as the model does.
func TestTwin_Mem(t *testing.T) {
	testTwin(t, kind[*memstore.Tx]{seeds: 1500, lanes: 64, begin: func(context.Context) (database[*memstore.Tx], error) {
		offset := time.Duration(0)
		store := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(offset) }))
		return database[*memstore.Tx]{
			open: func() (source[*memstore.Tx], error) { return store, nil },
			set: func(_ context.Context, d time.Duration) error {
				offset = d
				return nil
			},
			end: func() error { return nil },
		}, nil
	}})
}

// TestTwin_SQLite: SQLite answers as the model does.
func TestTwin_SQLite(t *testing.T) {
	dir := t.TempDir()
	testTwin(t, kind[*sql.Tx]{seeds: 60, lanes: 1, begin: func(ctx context.Context) (database[*sql.Tx], error) {
		file := filepath.Join(dir, waybill.NewID())
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=synchronous(off)")
		if err != nil {
			return database[*sql.Tx]{}, err
		}
		db.SetMaxOpenConns(1)
		s, err := sqlitestore.New(db, sqlitestore.Config{})
		if err == nil {
			_, err = s.Migrate(ctx, sqlitestore.MigrateOptions{})
		}
		return database[*sql.Tx]{
			open: func() (source[*sql.Tx], error) { return sqlitestore.New(db, sqlitestore.Config{}) },
			set:  func(ctx context.Context, d time.Duration) error { return setOffset(ctx, db, d) },
			end:  func() error { return errors.Join(db.Close(), os.Remove(file)) },
		}, err
	}})
}

// setOffset moves the clock of SQLite, MariaDB and MySQL.
func setOffset(ctx context.Context, db *sql.DB, d time.Duration) error {
	_, err := db.ExecContext(ctx, "UPDATE waybill_settings SET clock_offset_us = ?", d.Microseconds())
	return err
}

// TestTwin_MySQL: MariaDB, or MySQL, answers as the model does.
func TestTwin_MySQL(t *testing.T) {
	cfg, err := mysql.ParseDSN(cmp.Or(os.Getenv("MYSQL_URL"), "root@tcp(127.0.0.1:3306)/"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	testTwin(t, kind[*sql.Tx]{seeds: 25, lanes: 64, begin: func(ctx context.Context) (database[*sql.Tx], error) {
		of := cfg.Clone()
		of.DBName = "sim_" + strings.ReplaceAll(waybill.NewID(), "-", "")
		if _, err := root.ExecContext(ctx, "CREATE DATABASE "+of.DBName); err != nil {
			return database[*sql.Tx]{}, fmt.Errorf("MariaDB does not answer (%w); start it with: make services", err)
		}
		db, err := sql.Open("mysql", of.FormatDSN())
		if err != nil {
			return database[*sql.Tx]{}, err
		}
		db.SetMaxOpenConns(2)
		s, err := mysqlstore.New(db, mysqlstore.Config{})
		if err == nil {
			_, err = s.Migrate(ctx, mysqlstore.MigrateOptions{LockWait: 5 * time.Minute})
		}
		return database[*sql.Tx]{
			open: func() (source[*sql.Tx], error) { return mysqlstore.New(db, mysqlstore.Config{}) },
			set:  func(ctx context.Context, d time.Duration) error { return setOffset(ctx, db, d) },
			end: func() error {
				_, err := root.ExecContext(context.Background(), "DROP DATABASE "+of.DBName)
				return errors.Join(err, db.Close())
			},
		}, err
	}})
}

// TestTwin_Postgres: PostgreSQL answers as the model does.
func TestTwin_Postgres(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(cmp.Or(os.Getenv("POSTGRES_URL"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 30
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	testTwin(t, kind[pgx.Tx]{seeds: 25, lanes: 64, begin: func(ctx context.Context) (database[pgx.Tx], error) {
		cfg := pgstore.Config{Schema: "sim_" + strings.ReplaceAll(waybill.NewID(), "-", "")}
		s, err := pgstore.New(pool, cfg)
		if err != nil {
			return database[pgx.Tx]{}, err
		}
		if _, err := s.Migrate(ctx, pgstore.MigrateOptions{LockWait: 5 * time.Minute}); err != nil {
			return database[pgx.Tx]{}, fmt.Errorf("PostgreSQL: %w; start it with: make services", err)
		}
		_, err = pool.Exec(ctx, strings.ReplaceAll(`CREATE TABLE {schema}.ahead (by interval NOT NULL); INSERT INTO {schema}.ahead VALUES ('0');
CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp() + by FROM {schema}.ahead'`, "{schema}", cfg.Schema))
		return database[pgx.Tx]{
			open: func() (source[pgx.Tx], error) { return pgstore.New(pool, cfg) },
			set: func(ctx context.Context, d time.Duration) error {
				_, err := pool.Exec(ctx, "UPDATE "+cfg.Schema+".ahead SET by = $1", d)
				return err
			},
			end: func() error {
				_, err := pool.Exec(context.Background(), "DROP SCHEMA "+cfg.Schema+" CASCADE")
				return err
			},
			begin: func(ctx context.Context) (pgx.Tx, func(bool) error, error) {
				tx, err := pool.Begin(ctx)
				return tx, func(commit bool) error {
					if commit {
						return tx.Commit(ctx)
					}
					return tx.Rollback(context.Background())
				}, err
			},
		}, err
	}})
}

// TestTwin_Mongo: MongoDB answers as the model does: a server of ours, or the one that MONGODB_URL names.
func TestTwin_Mongo(t *testing.T) {
	server := os.Getenv("MONGODB_URL")
	if server == "" {
		own, err := mongofake.Listen()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(own.Close)
		server = own.URL()
	}
	client, err := mongo.Connect(options.Client().ApplyURI(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	testTwin(t, kind[*mongo.Session]{seeds: 25, lanes: 64, begin: func(ctx context.Context) (database[*mongo.Session], error) {
		db := client.Database("sim_" + strings.ReplaceAll(waybill.NewID(), "-", ""))
		offset := time.Duration(0)
		cfg := mongostore.Config{ClockOffset: func() time.Duration { return offset }}
		s, err := mongostore.New(db, cfg)
		if err == nil {
			err = s.Migrate(ctx)
		}
		return database[*mongo.Session]{
			open: func() (source[*mongo.Session], error) { return mongostore.New(db, cfg) },
			set: func(_ context.Context, d time.Duration) error {
				offset = d
				return nil
			},
			end: func() error { return db.Drop(context.Background()) },
		}, err
	}})
}
