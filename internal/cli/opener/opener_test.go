package opener

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/mongofake"
)

func postgresURL() string {
	if u := os.Getenv("POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
}

func mysqlURL() string {
	if u := os.Getenv("MYSQL_STORE"); u != "" {
		return u
	}
	return "mariadb://root@127.0.0.1:3306/test"
}

// onStores runs a test on each kind of store, with tables of its own.
func onStores(t *testing.T, test func(t *testing.T, cfg StoreConfig)) {
	t.Parallel()
	onPostgres(t, test)
	onMySQL(t, test)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, StoreConfig{URL: "sqlite:" + filepath.Join(t.TempDir(), "test.db"), Schema: "waybill", Create: true})
	})
}

// onAllStores adds those that are not SQL.
func onAllStores(t *testing.T, test func(t *testing.T, cfg StoreConfig)) {
	onStores(t, test)
	t.Run("mongodb", func(t *testing.T) {
		t.Parallel()
		server, err := mongofake.Listen()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		test(t, StoreConfig{URL: server.URL()})
	})
}

func onPostgres(t *testing.T, test func(t *testing.T, cfg StoreConfig)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		cfg := StoreConfig{URL: postgresURL(), Schema: "opener-" + waybill.NewID()[24:]}
		t.Cleanup(func() { dropSchema(t, cfg) })
		test(t, cfg)
	})
}

func onMySQL(t *testing.T, test func(t *testing.T, cfg StoreConfig)) {
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		db, _, err := OpenSQL(t.Context(), StoreConfig{URL: mysqlURL()})
		if err != nil {
			t.Fatalf("MariaDB does not answer (%v); start it with: make services", err)
		}
		name := "opener_" + waybill.NewID()[24:]
		if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := db.Exec("DROP DATABASE " + name); err != nil {
				t.Error(err)
			}
			db.Close()
		})
		u, err := url.Parse(mysqlURL())
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + name
		test(t, StoreConfig{URL: u.String(), Schema: "waybill"})
	})
}

func dropSchema(t *testing.T, cfg StoreConfig) {
	db, _, err := OpenSQL(context.Background(), cfg)
	if err != nil {
		t.Fatalf("PostgreSQL does not answer (%v); start it with: make services", err)
	}
	defer db.Close()
	if _, err := db.Exec(`DROP SCHEMA IF EXISTS "` + cfg.Schema + `" CASCADE`); err != nil {
		t.Errorf("drop schema: %v", err)
	}
}

// openMigrated opens a store for database/sql with its tables made.
func openMigrated(t *testing.T, cfg StoreConfig) (*sql.DB, SQLStore) {
	t.Helper()
	db, store, err := OpenSQL(t.Context(), cfg)
	if err != nil {
		t.Fatalf("OpenSQL() = %v", err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := store.Migrate(t.Context(), "", 0); err != nil {
		t.Fatalf("Migrate() = %v", err)
	}
	return db, store
}

// patience ends a test that hangs: each wait ends as soon as its condition holds.
const patience = 5 * time.Minute

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within %v: %v", patience, err)
		}
	}
}

func TestOpenStore(t *testing.T) {
	onAllStores(t, func(t *testing.T, cfg StoreConfig) {
		store, err := OpenStore(t.Context(), cfg)
		if err != nil {
			t.Fatalf("OpenStore() = %v", err)
		}
		defer store.Close()
		if v, err := store.SchemaVersion(t.Context()); v != 0 || err != nil {
			t.Errorf("SchemaVersion() = %d, %v before Migrate", v, err)
		}
		newest := len(store.Migrations())
		for range 2 { // the second time there is nothing to do
			if v, err := store.Migrate(t.Context(), "shop", 0); v != newest || err != nil {
				t.Fatalf("Migrate() = %d, %v, want %d", v, err, newest)
			}
		}
		if v, err := store.SchemaVersion(t.Context()); v != newest || err != nil {
			t.Errorf("SchemaVersion() = %d, %v", v, err)
		}
		facts, err := store.Facts(t.Context())
		wrongClock := IsPostgres(cfg.URL) && time.Since(facts.Clock).Abs() > time.Minute
		if err != nil || facts.Version == "" || wrongClock {
			t.Errorf("Facts() = %+v, %v", facts, err)
		}
	})
}

func TestOpenStore_Refuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, want string }{
		{"", "are known"},
		{"oracle://app:S3CR3T@db/x", "are known"},
		{"mysql://app:S3CR3T@db", "database is missing"},
		{"mysql://app:S3CR3T@db:port/x", "invalid port"},
		{"mysql://app:S3CR3T@db/x?timeout=soon", "parameter"},
		{"shop.db", "are known"},
		{"mongodb://app:S3CR3T@/x", "mongodb"},
		{"postgres://app:S3CR3T@db:port/x", "invalid port"},
		{"postgres://app:S3CR%3T@db/x", "postgres"},
		{"postgres://app:S3CR3T@db/x?sslmode=sometimes", "sslmode is invalid"},
		{"sqlite:", "path"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			t.Parallel()
			_, err := OpenStore(t.Context(), StoreConfig{URL: tt.url, Schema: "s"})
			_, _, errSQL := OpenSQL(t.Context(), StoreConfig{URL: tt.url, Schema: "s"})
			for _, err := range []error{err, errSQL} {
				if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "S3CR") {
					t.Errorf("error is %v, want ErrURL with %q and without the password", err, tt.want)
				}
			}
		})
	}
}

// TestErrorsWithoutSecrets: whatever character of a password is not escaped, and where the rest of the URL
// is missing, no error shows any of it.
func TestErrorsWithoutSecrets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be reached
	open := func(url string) []error {
		_, store := OpenStore(ctx, StoreConfig{URL: url, Schema: "s"})
		_, _, sql := OpenSQL(ctx, StoreConfig{URL: url, Schema: "s"})
		_, listen := OpenStore(ctx, StoreConfig{URL: "postgres://127.0.0.1:1/x", Schema: "s", ListenURL: url})
		_, leases := OpenLeases(ctx, LeaseConfig{StoreConfig: StoreConfig{URL: url, Schema: "s"}})
		return []error{store, sql, listen, leases, openBrokerErr(ctx, url)}
	}
	for _, scheme := range []string{"postgres", "postgresql", "mysql", "mariadb", "mongodb", "redis", "rediss", "amqp", "amqps", "nats", "kafka", "servicebus", "unknown"} {
		for _, rest := range []string{
			"app:S3CR3T", "app:S3CR3T/x", "app:S3CR3T#x@127.0.0.1:1/x", "app:S3CR3T?x@127.0.0.1:1/x", "app:S3CR3T/x@127.0.0.1:1/x",
			"app:17#S3CR3T@127.0.0.1:1/x", "app:17?S3CR3T@127.0.0.1:1/x", "app:17/S3CR3T@127.0.0.1:1/x", "app:S3%CR3T@127.0.0.1:1/x",
			"app:S3 CR3T@127.0.0.1:1/x", "app:S3CR3T@127.0.0.1:port/x", "app:S3CR3T@",
		} {
			for i, err := range open(scheme + "://" + rest) {
				if text := fmt.Sprint(err); strings.Contains(text, "S3") || strings.Contains(text, "CR3T") || strings.Contains(text, ":17") {
					t.Errorf("%s://%s: error %d is %q", scheme, rest, i, text)
				}
			}
		}
	}
}

// closedPort returns an address that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
	tests := []struct {
		url  string
		open func(ctx context.Context, url string) error
	}{
		{"postgres://app:S3CR3T@" + address + "/x", func(ctx context.Context, url string) error {
			_, err := OpenStore(ctx, StoreConfig{URL: url, Schema: "s"})
			return err
		}},
		{"postgres://app:S3CR3T@" + address + "/x", func(ctx context.Context, url string) error {
			_, _, err := OpenSQL(ctx, StoreConfig{URL: url, Schema: "s"})
			return err
		}},
		{"mysql://app:S3CR3T@" + address + "/x", func(ctx context.Context, url string) error {
			_, err := OpenStore(ctx, StoreConfig{URL: url})
			return err
		}},
		{"amqp://app:S3CR3T@" + address + "/", openBrokerErr},
		{"nats://app:S3CR3T@" + address, openBrokerErr},
		{"redis://app:S3CR3T@" + address, openBrokerErr},
	}
	for _, tt := range tests {
		t.Run(tt.url[:4], func(t *testing.T) {
			t.Parallel()
			err := tt.open(t.Context(), tt.url)
			var unreachable *UnreachableError
			if !errors.As(err, &unreachable) {
				t.Fatalf("error is %v, want an UnreachableError", err)
			}
			text := err.Error()
			if !strings.Contains(text, address) || strings.Contains(text, "S3CR3T") || strings.Contains(text, "\n") {
				t.Errorf("error is %q, want one line with %s and without the password", text, address)
			}
		})
	}
}

func openBrokerErr(ctx context.Context, url string) error {
	_, err := ReachBroker(ctx, BrokerConfig{URL: url})
	return err
}

func TestOpenBroker_Refuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "pulsar://app:S3CR3T@b", "localhost:4222"} {
		if err := openBrokerErr(t.Context(), url); !errors.Is(err, ErrURL) || strings.Contains(fmt.Sprint(err), "S3CR3T") {
			t.Errorf("OpenBroker(%q) = %v, want ErrURL without the password", url, err)
		}
	}
}

func TestOpenBroker_Memory(t *testing.T) {
	t.Parallel()
	b, err := OpenBroker(t.Context(), BrokerConfig{URL: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Ping(t.Context()); err != nil {
		t.Errorf("Ping() = %v", err)
	}
}
