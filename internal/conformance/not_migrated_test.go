package conformance

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// TestNotMigrated: a program can tell that the tables are missing or of an older release from a store that has failed.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	postgres, err := pgstore.New(p.pool, pgstore.Config{Schema: "nothing_there"})
	must(t, err)
	m := newMySQL(t, nil, mysqlstore.Config{})
	mysql := m.create(t)
	t.Cleanup(func() { m.drop(t, mysql) })
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "w.db"))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	sqlite, err := sqlitestore.New(db, sqlitestore.Config{})
	must(t, err)
	for name, s := range map[string]interface {
		contract.Source
		DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error)
	}{"PostgreSQL": postgres, "MariaDB": mysql, "SQLite": sqlite} {
		_, err := s.DeadLetters(t.Context(), deadletter.Filter{})
		if !errors.Is(err, waybill.ErrNotMigrated) || waybill.IsUnavailable(err) {
			t.Errorf("%s: DeadLetters() = %v, want ErrNotMigrated, which no patience helps", name, err)
		}
		_, err = s.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: patience})
		if !errors.Is(err, waybill.ErrNotMigrated) {
			t.Errorf("%s: RenewLanes() = %v, want ErrNotMigrated", name, err)
		}
	}
}
