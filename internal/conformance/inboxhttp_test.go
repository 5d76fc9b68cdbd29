package conformance

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
	"github.com/waybill-go/waybill/store/storetest"
)

// httpLeases is a client of a server of a store.
type httpLeases struct {
	*inboxhttp.Client
	below lease.BatchStore
}

// openHTTP serves a store.
func openHTTP(t *testing.T, below lease.BatchStore, cfg inboxhttp.Config) *httpLeases {
	t.Helper()
	cfg.Observer = observe.Observers()
	cfg.StoreTimeout = time.Minute
	handler, err := inboxhttp.NewServer(below, cfg)
	must(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: server.URL, Timeout: time.Minute})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return &httpLeases{client, below}
}

// overHTTP turns the harness of a store into that of a client of a server of it, which keeps
// no state: reopened it is another server of the same store.
func overHTTP(h storetest.LeaseHarness, cfg inboxhttp.Config) storetest.LeaseHarness {
	purges := !h.Features.Expires
	return storetest.LeaseHarness{
		Features: storetest.LeaseFeatures{
			Persists: true, Expires: true, ClampsTTL: cfg.MaxLease == 0, OneWriter: h.Features.OneWriter,
		},
		Open: func(t *testing.T) lease.BatchStore {
			return openHTTP(t, h.Open(t), cfg)
		},
		Reopen: func(t *testing.T, s lease.BatchStore) lease.BatchStore {
			return openHTTP(t, s.(*httpLeases).below, cfg)
		},
		Advance: func(t *testing.T, s lease.BatchStore, d time.Duration) {
			below := s.(*httpLeases).below
			h.Advance(t, below, d)
			if purges { // as the program of the service does
				_, err := below.PurgeLeases(context.Background(), storetest.LeaseRetention, lease.MaxBatch)
				must(t, err)
			}
		},
	}
}

// anyLease lets leases last as long as those of stores may.
var anyLease = inboxhttp.Config{MinLease: lease.MinTTL, MaxLease: lease.MaxTTL}

// inboxStores are those that the service is tested on.
func inboxStores(t *testing.T) map[string]storetest.LeaseHarness {
	return map[string]storetest.LeaseHarness{
		"memory":   memoryLeases(),
		"SQLite":   fewConnections(leasesOf(sqliteHarness(sqliteInService, sqlitestore.Config{}))),
		"Postgres": leasesOf(newPostgres(t, nil, pgstore.Config{}).pgxHarness()),
		"MySQL":    leasesOf(newMySQL(t, nil, mysqlstore.Config{}).harness()),
		"Redis":    redisLeaseHarness(newRedis(t)),
		"MongoDB":  mongoLeaseHarness(mongoClient(t, mongoURL(t))),
	}
}

// sqliteInService and fewConnections are as the program opens SQLite, with more patience: with
// many connections some would have to wait for the file for very long.
const sqliteInService = "_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_txlock=immediate"

func fewConnections(h storetest.LeaseHarness) storetest.LeaseHarness {
	open := h.Open
	h.Open = func(t *testing.T) lease.BatchStore {
		s := open(t)
		s.(*sqliteStore).db.SetMaxOpenConns(4)
		return s
	}
	return h
}

// TestLeases_HTTP (AS-40): the contract is kept through client and server, over every store.
//
//test:setup
func TestLeases_HTTP(t *testing.T) {
	t.Parallel()
	for name, h := range inboxStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunLeases(t, overHTTP(h, anyLease))
		})
	}
	t.Run("clamped", func(t *testing.T) {
		t.Parallel()
		storetest.RunLeases(t, overHTTP(memoryLeases(), inboxhttp.Config{}))
	})
}
