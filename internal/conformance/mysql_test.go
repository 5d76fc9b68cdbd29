package conformance

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// newMySQLStore returns a migrated store on a database of its own.
func newMySQLStore(t *testing.T, params url.Values) *mysqlStore {
	t.Helper()
	return newMySQL(t, params, mysqlstore.Config{}).migrated(t)
}

// TestMySQLStore_MigrateAtOnce lets several programs start together on an empty database.
func TestMySQLStore_MigrateAtOnce(t *testing.T) {
	t.Parallel()
	m := newMySQL(t, nil, mysqlstore.Config{})
	first := m.create(t)
	t.Cleanup(func() { m.drop(t, first) })
	if version, err := first.SchemaVersion(context.Background()); version != 0 || err != nil {
		t.Errorf("SchemaVersion of an empty database = %d, %v, want 0", version, err)
	}
	var all sync.WaitGroup
	for range 4 {
		s := m.open(t, first.name)
		t.Cleanup(func() { s.db.Close() })
		all.Go(func() {
			if version, err := s.Migrate(context.Background(), mysqlstore.MigrateOptions{LockWait: patience}); err != nil || version != len(s.Migrations()) {
				t.Errorf("Migrate() = %d, %v", version, err)
			}
		})
	}
	all.Wait()
	if version, err := first.SchemaVersion(context.Background()); version != len(first.Migrations()) || err != nil {
		t.Errorf("SchemaVersion() = %d, %v, want the newest", version, err)
	}
}

// TestMySQLStore_Down undoes the migrations, and repeats them, also from the middle.
func TestMySQLStore_Down(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	for _, m := range slices.Backward(s.Migrations()) {
		for _, stmt := range migrate.Split(m.Down) {
			must(t, s.exec(stmt))
		}
	}
	var left int
	must(t, s.db.QueryRow("SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'waybill%'").Scan(&left))
	if left != 1 {
		t.Errorf("%d tables are left, want the versions alone", left)
	}
	for _, stmt := range s.Migrations()[0].Statements()[:7] { // as by somebody who was interrupted
		must(t, s.exec(stmt))
	}
	_, err := s.Migrate(context.Background(), mysqlstore.MigrateOptions{LockWait: patience})
	must(t, err)
}

// TestMySQLStore_Session refuses sessions in which statements outside a transaction would not
// be committed.
func TestMySQLStore_Session(t *testing.T) {
	t.Parallel()
	m := newMySQL(t, url.Values{"autocommit": {"0"}}, mysqlstore.Config{})
	s := m.create(t)
	t.Cleanup(func() { m.drop(t, s) })
	_, versionErr := s.SchemaVersion(context.Background())
	_, migrateErr := s.Migrate(context.Background(), mysqlstore.MigrateOptions{LockWait: patience})
	for _, err := range []error{versionErr, migrateErr} {
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "db" {
			t.Errorf("error = %v, want one that names the setting", err)
		}
	}
}

// TestMySQLStore_Contract enqueues as the mariadb client does.
func TestMySQLStore_Contract(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newMySQLStore(t, nil)
	_, err := s.Migrate(ctx, mysqlstore.MigrateOptions{LockWait: patience, Source: `o'brien\`})
	must(t, err)
	must(t, s.exec(`INSERT INTO waybill_outbox (topic, payload, `+"`key`"+`) VALUES ('orders', '{"s":"\\u0000 \\n"}', 'k')`))
	must(t, s.exec(`INSERT INTO waybill_outbox (topic, payload_bytes, `+"`key`"+`, source) VALUES ('images', x'00ff', 'k', 'camera')`))
	// A session that cuts what is too long must not store it either.
	must(t, s.inSession("SET SESSION sql_mode = ''", func(conn *sql.Conn) error {
		for _, refused := range []string{
			`INSERT INTO waybill_outbox (topic, payload, payload_bytes) VALUES ('orders', 'a', x'00')`,
			`INSERT INTO waybill_outbox (topic, id) VALUES ('orders', '')`,
			`INSERT INTO waybill_outbox (topic, id) VALUES ('orders', REPEAT('a', 300))`,
			`INSERT INTO waybill_outbox (topic) VALUES (REPEAT('a', 300))`,
		} {
			if _, err := conn.ExecContext(ctx, refused); err == nil {
				t.Errorf("%s: was taken, want it refused", refused)
			}
		}
		return nil
	}))
	checkForeign(t, s, `o'brien\`)
}

// inSession runs fn on a session that has run a statement.
func (s *mysqlStore) inSession(stmt string, fn func(conn *sql.Conn) error) error {
	conn, err := s.db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(context.Background(), stmt); err != nil {
		return err
	}
	return fn(conn)
}

// TestMySQLStore_LaneIsFrozen holds lanes that rows on the way depend on. They are those of
// PostgreSQL.
func TestMySQLStore_LaneIsFrozen(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	for key, want := range map[string]int{"customer-1": 40, "customer-2": 33, `back\slash`: 20, "ü": 32, " ": 54} {
		must(t, s.exec("INSERT INTO waybill_outbox (topic, id, `key`) VALUES ('t', ?, ?), ('t', ?, '')", "id of "+key, key, key))
		for _, id := range []string{"id of " + key, key} {
			var lane int
			must(t, s.db.QueryRow("SELECT lane FROM waybill_outbox WHERE id = ?", id).Scan(&lane))
			if lane != want {
				t.Errorf("lane of the key or id %q = %d, want %d", key, lane, want)
			}
		}
	}
}

// TestMySQLStore_Standstill cuts a relay off while it renews its lease, in possession of the
// lock that every renewal needs: others renew theirs anyway.
func TestMySQLStore_Standstill(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newMySQLStore(t, nil)
	_, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Minute})
	must(t, err)
	holder := beginSQL(t, s.db)
	_, err = holder.Exec("SELECT 1 FROM waybill_locks WHERE name = 'lanes' FOR UPDATE")
	must(t, err)

	cutOff, proxy := s.behindProxy(t)
	waiting, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = cutOff.RenewLanes(waiting, contract.LeaseRequest{Node: "r2", Join: true, TTL: time.Minute}) // it fails
	}()
	s.untilLocked(t)
	proxy.StallReplies(true)
	must(t, holder.Rollback()) // now r2 has the lock, and does not learn of it

	if _, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", TTL: time.Minute}); err != nil {
		t.Errorf("RenewLanes while another relay stands still: %v", err)
	}
	end()
	<-ended
}

// behindProxy opens another store on the database of s, through a proxy.
func (s *mysqlStore) behindProxy(t *testing.T) (*mysqlStore, *faultproxy.Proxy) {
	t.Helper()
	cfg, err := mysql.ParseDSN(mysqlURL())
	must(t, err)
	proxy, err := faultproxy.New(context.Background(), cfg.Addr)
	must(t, err)
	t.Cleanup(proxy.Close)
	other := s.server.openAt(t, s.name, proxy.Addr())
	t.Cleanup(func() { other.db.Close() })
	return other, proxy
}

// untilLocked waits until a session waits for the lock of the renewals.
func (s *mysqlStore) untilLocked(t *testing.T) {
	t.Helper()
	waitFor(t, "a session waits for the lock", func() bool {
		var n int
		must(t, s.db.QueryRow("SELECT count(*) FROM information_schema.processlist WHERE db = ? AND info LIKE 'SELECT 1 FROM%FOR UPDATE'", s.name).Scan(&n))
		return n > 0
	})
}

// TestMySQLStore_Timeout: a session that has served a relay's transaction has its own timeout
// again, and so is not closed when it rests in the pool.
func TestMySQLStore_Timeout(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	s.db.SetMaxOpenConns(1)
	var before, after int
	must(t, s.db.QueryRow("SELECT @@wait_timeout").Scan(&before))
	_, err := s.RenewLanes(context.Background(), contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Minute})
	must(t, err)
	must(t, s.db.QueryRow("SELECT @@wait_timeout").Scan(&after))
	if before != after {
		t.Errorf("the session's timeout is %d s after a renewal, was %d s", after, before)
	}
}

// TestMySQLStore_OpenWriter settles around the uncommitted row of somebody who takes their
// time, in a table so small that the server would rather read it as a whole.
func TestMySQLStore_OpenWriter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newMySQLStore(t, nil)
	late := beginSQL(t, s.db)
	_, err := late.Exec("INSERT INTO waybill_outbox (topic, payload) VALUES ('orders', '1')")
	must(t, err)
	for range 20 {
		must(t, s.exec("INSERT INTO waybill_outbox (topic, payload) VALUES ('orders', '2')"))
	}
	held, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Minute})
	must(t, err)
	claims, err := s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: held.Lanes, Limit: 10})
	must(t, err)
	var list []contract.Settlement
	for i := range claims {
		list = append(list, contract.Settlement{Claim: &claims[i], Outcome: contract.Published})
	}
	if _, err = s.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Archive: true, Settlements: list}); err != nil || len(list) != 10 {
		t.Errorf("SettleMessages of %d = %v, want 10 to go despite an open writer", len(list), err)
	}
	must(t, late.Rollback())
}

// TestMySQLStore_PurgeSkips purges while somebody has locked a key: that one stays, and is
// not waited for.
func TestMySQLStore_PurgeSkips(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newMySQLStore(t, nil)
	for _, key := range []string{"a", "b", "c"} {
		_, err := s.TryBegin(ctx, lease.Request{Key: key, TTL: time.Minute})
		must(t, err)
	}
	must(t, s.exec("UPDATE waybill_settings SET clock_offset_us = ?", (2*time.Hour).Microseconds()))
	holder := beginSQL(t, s.db)
	_, err := holder.Exec("SELECT 1 FROM waybill_inbox_leases WHERE `key` = 'b' FOR UPDATE")
	must(t, err)
	if n, err := s.PurgeLeases(ctx, time.Hour, 10); n != 2 || err != nil {
		t.Errorf("PurgeLeases() = %d, %v, want the two that nobody has locked", n, err)
	}
	must(t, holder.Rollback())
	if rec, err := s.ReadLease(ctx, "b"); err != nil || rec.Status != lease.Expired {
		t.Errorf("ReadLease() = %+v, %v, want the key that was locked", rec, err)
	}
}

// TestMySQLStore_Unavailable asks stores that nobody answers.
func TestMySQLStore_Unavailable(t *testing.T) {
	t.Parallel()
	closed := newMySQL(t, nil, mysqlstore.Config{}).open(t, "mysql")
	closed.db.Close()
	db, err := sql.Open("mysql", "root@tcp(127.0.0.1:1)/test")
	must(t, err)
	defer db.Close()
	missing, err := mysqlstore.New(db, mysqlstore.Config{})
	must(t, err)
	for name, s := range map[string]*mysqlstore.Store{"missing": missing, "closed": closed.Store} {
		if err := s.Ping(context.Background()); !waybill.IsUnavailable(err) {
			t.Errorf("%s: Ping() = %v, want an unavailable error", name, err)
		}
		if _, err := s.OutboxStats(context.Background()); !waybill.IsUnavailable(err) {
			t.Errorf("%s: OutboxStats() = %v, want an unavailable error", name, err)
		}
	}
}
