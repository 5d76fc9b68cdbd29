package opener

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/inbox/lease"
)

func redisURL() string {
	if u := os.Getenv("REDIS_URL"); u != "" {
		return u
	}
	return "redis://127.0.0.1:6379/0"
}

func TestOpenLeases(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		url    string
		tables bool
	}{
		"memory":   {"memory:", false},
		"Redis":    {redisURL(), false},
		"SQLite":   {"sqlite:" + filepath.Join(t.TempDir(), "new.db"), true},
		"Postgres": {postgresURL(), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := OpenLeases(t.Context(), LeaseConfig{StoreConfig: StoreConfig{URL: tt.url, Schema: "waybill", Create: true}, Retention: time.Hour})
			if err != nil {
				t.Fatalf("OpenLeases() = %v", err)
			}
			defer l.Close()
			if (l.Tables != nil) != tt.tables || l.Address == "" || l.Warning != "" {
				t.Errorf("OpenLeases() = %+v, want tables %v", l, tt.tables)
			}
			if tt.tables {
				return
			}
			if r, err := l.ReadLease(t.Context(), "never seen"); err != nil || r.Status != lease.Unknown {
				t.Errorf("ReadLease() = %+v, %v", r, err)
			}
		})
	}
}

// TestOpenLeases_Keys takes a key from each store with tables, and finds it taken.
func TestOpenLeases_Keys(t *testing.T) {
	onStores(t, func(t *testing.T, cfg StoreConfig) {
		leases, err := OpenLeases(t.Context(), LeaseConfig{StoreConfig: cfg})
		if err != nil {
			t.Fatalf("OpenLeases() = %v", err)
		}
		t.Cleanup(func() { leases.Close() })
		if _, err := leases.Tables.Migrate(t.Context(), "", 0); err != nil {
			t.Fatalf("Migrate() = %v", err)
		}
		for _, want := range []lease.Status{lease.Acquired, lease.Busy} {
			a, err := leases.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
			if err != nil || a.Status != want {
				t.Errorf("TryBegin() = %+v, %v, want %s", a, err, want)
			}
		}
	})
}

func TestOpenLeases_Refuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"etcd://app:S3CR3T@host":              "redis://…, mongodb://… and memory: are known",
		"mysql://app:S3CR3T@db":               "database is missing",
		"sqlite:":                             "path",
		"redis://app:S3CR3T@host:port/0":      "invalid port",
		"redis://app:S3CR3T@host/number":      "malformed",
		"mongodb://app:S3CR3T@host:port/x":    "malformed",
		"postgres://app:S3CR3T@host:port/x":   "invalid port",
		"redis://app:S3CR3T@host:1?addr=host": "malformed",

		"redis://app:S3CR3T@host?master_name=shop&sentinel_password=S3CR3T&x=y": "malformed",
	} {
		l, err := OpenLeases(t.Context(), LeaseConfig{StoreConfig: StoreConfig{URL: url, Schema: "s"}, Retention: time.Hour})
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3CR") || l != nil {
			t.Errorf("OpenLeases(%s) = %v, want ErrURL with %q and without the password", url, err, want)
		}
	}
}

// TestNewRedis_Sentinels: a URL with a master_name leads to the master that Sentinels watch.
func TestNewRedis_Sentinels(t *testing.T) {
	t.Parallel()
	client, err := newRedis("redis://app:s3cret@a?master_name=shop&addr=b:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	one, ok := client.(*redis.Client)
	if !ok || one.Options().Addr != "FailoverClient" || !one.Options().ContextTimeoutEnabled {
		t.Errorf("newRedis() = %v, want a client that asks Sentinels, and heeds contexts", client)
	}
}

func TestMongoDatabase(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mongodb://a": "waybill", "mongodb://a/": "waybill", "mongodb://a:1,b:2/shop?replicaSet=r": "shop", "mongodb+srv://u:p@a/?x=/y": "waybill",
	} {
		if got := mongoDatabase(url); got != want {
			t.Errorf("mongoDatabase(%s) = %s, want %s", url, got, want)
		}
	}
}
