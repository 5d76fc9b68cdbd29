package conformance

import (
	"cmp"
	"log/slog"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

func memoryLeases() storetest.LeaseHarness {
	return storetest.LeaseHarness{
		Open: func(*testing.T) lease.BatchStore {
			s := &memStore{}
			s.Store = memstore.New(memstore.WithClock(s.now))
			return s
		},
		Advance: func(_ *testing.T, s lease.BatchStore, d time.Duration) { s.(*memStore).move(d) },
	}
}

// TestLeases_Memory shows AS-40, AS-41, AS-42, AS-43, AS-44, AS-45, AS-47.
func TestLeases_Memory(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, memoryLeases())
}

// leasesOf turns the harness of a whole store into that of its leases.
func leasesOf[Tx any](h storetest.Harness[Tx]) storetest.LeaseHarness {
	whole := func(s lease.BatchStore) storetest.Store[Tx] { return s.(storetest.Store[Tx]) }
	leases := func(s storetest.Store[Tx]) lease.BatchStore { return s.(lease.BatchStore) }
	return storetest.LeaseHarness{
		Features: storetest.LeaseFeatures{Persists: h.Features.Persists},
		Open:     func(t *testing.T) lease.BatchStore { return leases(h.Open(t)) },
		Reopen: func(t *testing.T, s lease.BatchStore) lease.BatchStore {
			return leases(h.Reopen(t, whole(s)))
		},
		Advance: func(t *testing.T, s lease.BatchStore, d time.Duration) { h.Advance(t, whole(s), d) },
	}
}

// TestLeases_Postgres shows AS-40, AS-41, AS-42, AS-43, AS-44, AS-45, AS-47.
//
//test:setup
func TestLeases_Postgres(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		params map[string]string // of each session
		cfg    pgstore.Config
		sql    bool   // through database/sql
		url    string // of the server, if not postgresURL
	}{
		{name: "pgx"},
		{name: "sql, time zone", params: map[string]string{"TimeZone": "Asia/Tokyo"}, sql: true},
		{name: "serializable, odd names", params: map[string]string{"default_transaction_isolation": "serializable"}, cfg: pgstore.Config{Schema: `way-bill"x`, TablePrefix: `My "pre'fix %`}},
		{name: "through PgBouncer", url: bouncerURL(t)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPostgresAt(t, cmp.Or(tc.url, postgresURL()), tc.params, tc.cfg)
			if tc.sql {
				storetest.RunLeases(t, leasesOf(p.sqlHarness()))
			} else {
				storetest.RunLeases(t, leasesOf(p.pgxHarness()))
			}
		})
	}
}

// TestLeases_SQLite shows AS-40, AS-41, AS-42, AS-43, AS-44, AS-45, AS-47.
func TestLeases_SQLite(t *testing.T) {
	t.Parallel()
	h := leasesOf(sqliteHarness("_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate",
		sqlitestore.Config{TablePrefix: `My "pre'fix $1 ?2 %`}))
	h.Features.OneWriter = true
	h.Features.MayConflict = true // a writer waits for the one before it for 5 s at most
	storetest.RunLeases(t, h)
}

// TestLeases_MySQL shows AS-40, AS-41, AS-42, AS-43, AS-44, AS-45, AS-47.
//
//test:setup
func TestLeases_MySQL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		params url.Values // of each session
		cfg    mysqlstore.Config
	}{
		{name: "default"},
		{name: "hostile", params: hostileMySQL(), cfg: mysqlstore.Config{TablePrefix: oddMySQLPrefix}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			storetest.RunLeases(t, leasesOf(newMySQL(t, tc.params, tc.cfg).harness()))
		})
	}
}

// TestJanitorRemovesLeases (AS-47): the janitor of a store also looks after its leases.
func TestJanitorRemovesLeases(t *testing.T) {
	p := newPostgres(t, nil, pgstore.Config{})
	for name, h := range map[string]storetest.LeaseHarness{
		"memory":     memoryLeases(),
		"PostgreSQL": leasesOf(p.pgxHarness()),
		"SQLite":     leasesOf(sqliteHarness("_pragma=busy_timeout(5000)", sqlitestore.Config{})),
		"MySQL":      leasesOf(newMySQL(t, nil, mysqlstore.Config{}).harness()),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := h.Open(t)
			begin := func(key string, ttl time.Duration) lease.Lease {
				a, err := s.TryBegin(ctx, lease.Request{Key: key, TTL: ttl})
				must(t, err)
				return lease.Lease{Key: key, ID: a.LeaseID}
			}
			_, err := s.MarkProcessed(ctx, begin("processed", time.Minute))
			must(t, err)
			begin("run out", time.Minute)
			h.Advance(t, s, 25*time.Hour)
			begin("held", 24*time.Hour)
			h.Advance(t, s, time.Hour)

			j, err := janitor.New(s.(janitor.Store), janitor.Config{LeaseRetention: 30 * time.Minute, Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
			must(t, err)
			reports, err := j.Clean(ctx)
			must(t, err)
			want := janitor.Report{Rows: janitor.Leases, OlderThan: 30 * time.Minute, Purged: janitor.Purged{Candidates: 2, Deleted: 2, Batches: 1}}
			if !slices.Contains(reports, want) {
				t.Errorf("Clean() = %+v, want %+v", reports, want)
			}
			if rec, err := s.ReadLease(ctx, "held"); err != nil || rec.Status != lease.Busy {
				t.Errorf("ReadLease() = %+v, %v, want what somebody has", rec, err)
			}
			n, err := s.(janitor.Store).CountExpired(ctx, janitor.Rows{Kind: janitor.Leases, OlderThan: time.Nanosecond, Tenant: "north"})
			if n != 0 || err != nil {
				t.Errorf("CountExpired() of a tenant = %d, %v, want 0: leases belong to none", n, err)
			}
		})
	}
}
