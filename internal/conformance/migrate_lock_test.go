package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
)

// migratesBehind migrates while a stranger holds the lock of migrations, and again while the stranger
// releases it.
func migratesBehind(t *testing.T, migrate func(wait time.Duration) error, names []string, waits func() bool, letGo func()) {
	t.Helper()
	err := migrate(time.Second)
	if err == nil || !waybill.IsConflict(err) {
		t.Errorf("Migrate() = %v, want a conflict", err)
	}
	for _, name := range names {
		if err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("Migrate() = %v, want it to name %s", err, name)
		}
	}
	done := make(chan error, 1)
	go func() { done <- migrate(0) }()
	waitFor(t, "the migration waits", waits)
	letGo()
	must(t, <-done)
}

func TestPostgresStore_MigrateLockHeld(t *testing.T) {
	t.Parallel()
	url := ownserver.Postgres(t) // the lock is one for all migrations of a database
	p := newPostgresAt(t, url, nil, pgstore.Config{})
	_, err := p.pool.Exec(t.Context(), "CREATE ROLE stranger LOGIN")
	must(t, err)
	cfg, err := pgx.ParseConfig(url)
	must(t, err)
	cfg.User, cfg.RuntimeParams["application_name"] = "stranger", "intruder"
	stranger, err := pgx.ConnectConfig(t.Context(), cfg)
	must(t, err)
	defer stranger.Close(context.Background())
	_, err = stranger.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext('waybill migrate'))")
	must(t, err)
	store, err := pgstore.New(p.pool, pgstore.Config{})
	must(t, err)
	migratesBehind(t, func(wait time.Duration) error {
		_, err := store.Migrate(context.Background(), pgstore.MigrateOptions{LockWait: wait})
		return err
	}, []string{fmt.Sprint("pid ", stranger.PgConn().PID()), "user stranger", `"intruder"`}, func() (waiting bool) {
		must(t, p.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&waiting))
		return waiting
	}, func() {
		_, err := stranger.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
		must(t, err)
	})
}

func TestMySQLStore_MigrateLockHeld(t *testing.T) {
	// Not parallel: the lock is one for all migrations of the server.
	s := newMySQLStore(t, nil)
	stranger, err := s.db.Conn(t.Context())
	must(t, err)
	defer stranger.Close()
	var id int64
	var mine bool
	must(t, stranger.QueryRowContext(t.Context(), "SELECT CONNECTION_ID(), GET_LOCK('waybill migrate', 60)").Scan(&id, &mine))
	if !mine {
		t.Fatal("the lock of migrations is not to be had")
	}
	migratesBehind(t, func(wait time.Duration) error {
		_, err := s.Migrate(context.Background(), mysqlstore.MigrateOptions{LockWait: wait})
		return err
	}, []string{fmt.Sprint("connection ", id), "user root"}, func() (waiting bool) {
		must(t, s.db.QueryRow("SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND db = DATABASE()").Scan(&waiting))
		return waiting
	}, func() {
		_, err := stranger.ExecContext(t.Context(), "DO RELEASE_LOCK('waybill migrate')")
		must(t, err)
	})
}
