package opener

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/internal/redisurl"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/redisstore"
)

// LeaseConfig configures the lease store to open.
type LeaseConfig struct {
	// StoreConfig is that of the stores with tables. The URL may also be
	// redis://user:password@host:port/number, mongodb://user:password@host/database, or
	// memory:. TablePrefix begins the names of keys and collections there.
	StoreConfig

	// Retention is for the stores that remove keys by themselves.
	Retention time.Duration
}

// Leases is an opened store of leases.
type Leases struct {
	lease.BatchStore

	// Tables is the store itself if it has tables, which must exist; else nil.
	Tables Store

	// Warning says what is wrong with the server, "" if nothing.
	Warning string

	// Eviction is the maxmemory-policy of Redis, "" for other stores and if Redis does not report it.
	Eviction string

	// Address is the URL without its password.
	Address string

	close func() error
}

// Close ends the connections.
func (l *Leases) Close() error { return l.close() }

// OpenLeases opens a store of leases and makes sure that it answers, with the same errors as [OpenStore].
func OpenLeases(ctx context.Context, cfg LeaseConfig) (*Leases, error) {
	if err := checkPassword("store", cfg.URL); err != nil {
		return nil, err
	}
	open := openTables
	switch schemeOf(cfg.URL) {
	case "redis", "rediss":
		open = openRedis
	case "mongodb", "mongodb+srv":
		open = openMongoLeases
	case "memory":
		return &Leases{BatchStore: memstore.New(), Address: cfg.URL, close: func() error { return nil }}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	l, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l.Address = redact.URL(cfg.URL)
	return l, nil
}

func unknownLeases(url string) error {
	return unknownStore(url, "sqlite:path, postgres://…, mysql://…, redis://…, mongodb://… and memory:")
}

// IsRedis reports whether a URL is of Redis, which only keeps leases.
func IsRedis(url string) bool {
	scheme := schemeOf(url)
	return scheme == "redis" || scheme == "rediss"
}

// hasTables reports whether a URL is of a store with tables.
func hasTables(url string) bool {
	return IsPostgres(url) || isMySQL(url) || schemeOf(url) == "sqlite"
}

// openTables opens a database with tables.
func openTables(ctx context.Context, cfg LeaseConfig) (*Leases, error) {
	store, err := NewStore(cfg.StoreConfig)
	switch {
	case errors.Is(err, ErrURL) && !hasTables(cfg.URL):
		return nil, unknownLeases(cfg.URL)
	case err != nil:
		return nil, err
	}
	if err := store.Ping(ctx); err != nil {
		_ = store.Close() // it was never in use
		return nil, &UnreachableError{What: "store", Address: store.Address(), Err: err}
	}
	return &Leases{BatchStore: store, Tables: store, close: store.Close}, nil
}

// openRedis opens one server; a Cluster if the URL names further nodes as addr=host:port; the master that Sentinels watch
// if it has a master_name.
func openRedis(ctx context.Context, cfg LeaseConfig) (*Leases, error) {
	client, err := newRedis(cfg.URL)
	if err != nil {
		return nil, badURL("store", cfg.URL, err)
	}
	store, err := redisstore.New(client, redisstore.Config{Prefix: redisPrefix(cfg.TablePrefix), Retention: cfg.Retention})
	if err != nil {
		_ = client.Close() // it was never in use
		return nil, err
	}
	policy, err := store.EvictionPolicy(ctx)
	if err != nil {
		_ = client.Close() // it does not answer
		return nil, &UnreachableError{What: "store", Address: redact.URL(cfg.URL), Err: err}
	}
	l := &Leases{BatchStore: store, Eviction: policy, close: client.Close}
	if policy != "" && policy != redisstore.NoEviction {
		l.Warning = "Redis has the maxmemory-policy " + policy + ": when its memory is full it forgets keys, which are processed again; set " + redisstore.NoEviction
	}
	return l, nil
}

// newRedis returns a client whose calls end when their contexts do.
func newRedis(url string) (redis.UniversalClient, error) {
	switch watched, err := redisurl.Sentinels(url); {
	case err != nil:
		return nil, err
	case watched != nil:
		watched.ContextTimeoutEnabled = true
		return redis.NewUniversalClient(watched), nil
	}
	if strings.Contains(url, "addr=") {
		cluster, err := redis.ParseClusterURL(url)
		if err != nil {
			return nil, err
		}
		cluster.ContextTimeoutEnabled = true
		return redis.NewClusterClient(cluster), nil
	}
	single, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	single.ContextTimeoutEnabled = true
	return redis.NewClient(single), nil
}

// redisPrefix is the store's own unless a prefix is set.
func redisPrefix(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix + "inbox:"
}

// openMongoLeases opens the leases of a MongoDB that may have nothing else, and makes their index.
func openMongoLeases(ctx context.Context, cfg LeaseConfig) (*Leases, error) {
	m, err := openMongo(cfg.StoreConfig)
	if err != nil {
		return nil, err
	}
	if err := m.leases.EnsureIndexes(ctx); err != nil {
		_ = m.Close() // it does not answer
		return nil, &UnreachableError{What: "store", Address: m.address, Err: err}
	}
	return &Leases{BatchStore: m.leases, close: m.Close}, nil
}
