package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

const sqliteWaits = "_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)" // transactions begin deferred

// TestSQLiteStore_WritersWait lets two programs work on one file, whose driver begins
// transactions without a lock. None of the store's own may fail because another one writes:
// a transaction that reads first, and wants to write after another one has written, would.
func TestSQLiteStore_WritersWait(t *testing.T) {
	t.Parallel()
	const messages = 200
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "test.db")
	writer, reader := migratedSQLite(t, path), migratedSQLite(t, path)
	var all sync.WaitGroup
	all.Go(func() {
		for i := range messages {
			m := waybill.Message{ID: fmt.Sprint(i), Topic: "orders", Source: "shop"}
			m.Complete()
			_, err := writer.Transact(ctx, func(context.Context, *sql.Tx) (outbox.Batch, error) {
				return outbox.Batch{Messages: []waybill.Message{m}}, nil
			})
			if err != nil {
				t.Errorf("Transact: %v", err)
			}
		}
	})
	all.Go(func() { drainSQLite(t, reader, messages) })
	all.Wait()
}

// drainSQLite publishes messages until it has had as many as are wanted.
func drainSQLite(t *testing.T, s *sqliteStore, want int) {
	ctx := context.Background()
	for published := 0; published < want; {
		lease, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Minute})
		if err != nil {
			t.Errorf("RenewLanes: %v", err)
			return
		}
		claims, err := s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: 3})
		if err != nil {
			t.Errorf("ClaimMessages: %v", err)
			return
		}
		var list []contract.Settlement
		for i := range claims {
			list = append(list, contract.Settlement{Claim: &claims[i], Outcome: contract.Published})
		}
		if _, err = s.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Archive: true, Settlements: list}); err != nil {
			t.Errorf("SettleMessages: %v", err)
			return
		}
		published += len(claims)
	}
}

func migratedSQLite(t *testing.T, path string) *sqliteStore {
	t.Helper()
	s := openSQLite(t, path, sqliteWaits, sqlitestore.Config{})
	_, err := s.Migrate(context.Background(), sqlitestore.MigrateOptions{})
	must(t, err)
	return s
}

// TestSQLiteStore_MigrateAtOnce lets several programs start together on an empty file.
func TestSQLiteStore_MigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var stores []*sqliteStore
	for range 6 {
		stores = append(stores, openSQLite(t, path, sqliteWaits, sqlitestore.Config{}))
	}
	if version, err := stores[0].SchemaVersion(context.Background()); version != 0 || err != nil {
		t.Errorf("SchemaVersion of an empty file = %d, %v, want 0", version, err)
	}
	var all sync.WaitGroup
	for _, s := range stores {
		all.Go(func() {
			if version, err := s.Migrate(context.Background(), sqlitestore.MigrateOptions{}); err != nil || version != len(s.Migrations()) {
				t.Errorf("Migrate() = %d, %v", version, err)
			}
		})
	}
	all.Wait()
	if version, err := stores[1].SchemaVersion(context.Background()); version != len(stores[1].Migrations()) || err != nil {
		t.Errorf("SchemaVersion() = %d, %v, want the newest", version, err)
	}
}

// TestSQLiteStore_Down undoes the migrations, and repeats them.
func TestSQLiteStore_Down(t *testing.T) {
	t.Parallel()
	s := migratedSQLite(t, filepath.Join(t.TempDir(), "test.db"))
	for _, m := range slices.Backward(s.Migrations()) {
		for _, stmt := range migrate.Split(m.Down) {
			must(t, s.exec(stmt))
		}
		must(t, s.exec("DELETE FROM waybill_schema_versions WHERE version = ?", m.Version))
	}
	var left int
	must(t, s.db.QueryRow("SELECT count(*) FROM sqlite_master WHERE name LIKE 'waybill%' AND name <> 'waybill_schema_versions'").Scan(&left))
	if left != 0 {
		t.Errorf("%d tables and indexes are left, want none", left)
	}
	_, err := s.Migrate(context.Background(), sqlitestore.MigrateOptions{})
	must(t, err)
}

// TestSQLiteStore_Contract enqueues as the sqlite3 shell does.
func TestSQLiteStore_Contract(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := migratedSQLite(t, filepath.Join(t.TempDir(), "test.db"))
	_, err := s.Migrate(ctx, sqlitestore.MigrateOptions{Source: "o'brien"})
	must(t, err)
	must(t, s.exec(`INSERT INTO waybill_outbox (topic, payload, key) VALUES ('orders', '{"s":"\u0000 \n"}', 'k')`))
	must(t, s.exec(`INSERT INTO waybill_outbox (topic, payload_bytes, key, source) VALUES ('images', x'00ff', 'k', 'camera')`))
	for _, refused := range []string{
		`INSERT INTO waybill_outbox (topic, payload, payload_bytes) VALUES ('orders', 'a', x'00')`,
		`INSERT INTO waybill_outbox (topic, id) VALUES ('orders', '')`,
		`INSERT INTO waybill_outbox (payload) VALUES ('a')`,
		`INSERT INTO waybill_outbox (topic, deliver_at) VALUES ('orders', 'tomorrow')`,
		`INSERT INTO waybill_outbox (topic, payload_bytes) VALUES ('orders', 'text')`,
		`INSERT INTO waybill_outbox (topic, position) VALUES ('orders', 9223372036854775807)`, // after which there is none
		`INSERT INTO waybill_outbox (topic, position) VALUES ('orders', -1)`,
	} {
		if s.exec(refused) == nil {
			t.Errorf("%s: was taken, want it refused", refused)
		}
	}
	checkForeign(t, s, "o'brien")
}

// TestSQLiteStore_Unavailable asks stores whose file is out of reach.
func TestSQLiteStore_Unavailable(t *testing.T) {
	t.Parallel()
	missing := openSQLite(t, filepath.Join(t.TempDir(), "no", "such", "directory.db"), sqliteWaits, sqlitestore.Config{})
	closed := migratedSQLite(t, filepath.Join(t.TempDir(), "test.db"))
	closed.db.Close()
	for name, s := range map[string]*sqliteStore{"missing": missing, "closed": closed} {
		if err := s.Ping(context.Background()); !waybill.IsUnavailable(err) {
			t.Errorf("%s: Ping() = %v, want an unavailable error", name, err)
		}
		if _, err := s.OutboxStats(context.Background()); !waybill.IsUnavailable(err) {
			t.Errorf("%s: OutboxStats() = %v, want an unavailable error", name, err)
		}
	}
}
