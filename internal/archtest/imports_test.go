package archtest

import (
	"strings"
	"testing"
)

// imports makes the text of a file that imports the given paths.
func imports(paths ...string) string {
	var b strings.Builder
	b.WriteString("package p\n")
	for _, p := range paths {
		b.WriteString("import _ \"" + p + "\"\n")
	}
	return b.String()
}

func TestCheckImports_Rule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to string // a file, and what it imports below the module
		want     string // the finding; none if empty
	}{
		{"message.go", "relay", "the root package (root) must not import relay (role)"},
		{"message.go", "internal/loop", "the root package (root) must not import internal/loop (leaf)"},
		{"relay/relay.go", "", ""},
		{"relay/relay.go", "internal/loop", ""},
		{"relay/relay.go", "inbox", "relay (role) must not import inbox (role)"},
		{"relay/relay.go", "store/memstore", "relay (role) must not import store/memstore (adapter)"},
		{"relay/relay.go", "internal/config", "relay (role) must not import internal/config (settings)"},
		{"consumer/consumer.go", "inbox", ""},
		{"inbox/inbox.go", "consumer", "inbox (role) must not import consumer (role)"},
		{"deadletter/deadletter.go", "outbox", ""},
		{"deadletter/deadletter.go", "inbox", "deadletter (role) must not import inbox (role)"},
		{"schedule/schedule.go", "outbox", ""},
		{"schedule/schedule.go", "inbox", "schedule (role) must not import inbox (role)"},
		{"saga/saga.go", "schedule", ""},
		{"saga/saga.go", "service", "saga (compound) must not import service (compound)"},
		{"saga/saga.go", "store/pgstore", "saga (compound) must not import store/pgstore (adapter)"},
		{"request/client.go", "outbox", ""},
		{"request/client.go", "broker", "request (compound) must not import broker (compound)"},
		{"store/pgstore/store.go", "relay", ""},
		{"store/pgstore/store.go", "saga", ""},
		{"store/pgstore/store.go", "internal/migrate", ""},
		{"store/pgstore/store.go", "store/pgstore/lock", ""},
		{"store/pgstore/store.go", "store/memstore", "store/pgstore (adapter) must not import store/memstore (adapter)"},
		{"store/pgstore/store.go", "broker/natsbroker", "store/pgstore (adapter) must not import broker/natsbroker (adapter)"},
		{"store/pgstore/store.go", "store/storetest", "store/pgstore (adapter) must not import store/storetest (suite)"},
		{"store/pgstore/store.go", "internal/cli", "store/pgstore (adapter) must not import internal/cli (cli)"},
		{"store/storetest/suite.go", "inbox", ""},
		{"store/storetest/suite.go", "internal/migrate", "store/storetest (suite) must not import internal/migrate (leaf)"},
		{"store/storetest/suite.go", "store/memstore", "store/storetest (suite) must not import store/memstore (adapter)"},
		{"broker/brokertest/suite.go", "broker/membroker", "broker/brokertest (suite) must not import broker/membroker (adapter)"},
		{"observe/otelobserve/otel.go", "relay", ""},
		{"observe/otelobserve/otel.go", "observe/promobserve", "observe/otelobserve (adapter) must not import observe/promobserve (adapter)"},
		{"waybilltest/kit.go", "store/memstore", ""},
		{"waybilltest/kit.go", "broker/membroker", ""},
		{"waybilltest/kit.go", "store/sqlitestore", "waybilltest (adapter) must not import store/sqlitestore (adapter)"},
		{"broker/natsbroker/broker.go", "internal/testtools/faultproxy", "broker/natsbroker (adapter) must not import internal/testtools (tool)"},
		{"internal/cli/opener/mongo_test.go", "internal/testtools/mongofake", ""},
		{"internal/cli/opener/mongo.go", "internal/testtools/mongofake", "internal/cli (cli) must not import internal/testtools (tool)"},
		{"internal/cloudevents/map.go", "", ""},
		{"internal/cloudevents/map.go", "relay", "internal/cloudevents (leaf) must not import relay (role)"},
		{"internal/cloudevents/map.go", "internal/loop", "internal/cloudevents (leaf) must not import internal/loop (leaf)"},
		{"internal/cli/relay.go", "store/pgstore", ""},
		{"internal/cli/relay.go", "internal/config", ""},
		{"internal/cli/relay.go", "store/storetest", "internal/cli (cli) must not import store/storetest (suite)"},
		{"internal/conformance/pg.go", "store/storetest", ""},
		{"internal/e2e/relay_test.go", "internal/cli", ""},
		{"internal/e2e/relay_test.go", "cmd/waybill", "internal/e2e (harness) must not import cmd/waybill (command)"},
		{"internal/archtest/tree.go", "", "internal/archtest (checks) must not import the root package (root)"},
		{"cmd/waybill/main.go", "internal/cli", ""},
		{"cmd/waybill/main.go", "relay", "cmd/waybill (command) must not import relay (role)"},
		{"examples/orders/main.go", "store/pgstore", ""},
		{"examples/orders/main.go", "internal/loop", "examples/orders (example) must not import internal/loop (leaf)"},
	}
	for _, tt := range tests {
		t.Run(tt.from+" imports "+tt.to, func(t *testing.T) {
			t.Parallel()
			path := strings.TrimSuffix(Module+"/"+tt.to, "/")
			got := run(t, CheckImports, source{tt.from, imports(path)})
			if tt.want == "" {
				wantFindings(t, got)
			} else {
				wantFindings(t, got, tt.from+":2: "+tt.want)
			}
		})
	}
}

func TestCheckImports_Modules(t *testing.T) {
	t.Parallel()
	const (
		uuid   = "github.com/google/uuid"
		pgx    = "github.com/jackc/pgx/v5"
		amqp   = "github.com/rabbitmq/amqp091-go"
		nats   = "github.com/nats-io/nats.go"
		server = "github.com/nats-io/nats-server/v2"
		sqlite = "modernc.org/sqlite"
		cobra  = "github.com/spf13/cobra"
		yaml   = "go.yaml.in/yaml/v3"
	)
	tests := []struct {
		from, imported string
		allowed        bool
	}{
		{"message.go", uuid, true},
		{"outbox/writer.go", uuid, false},
		{"store/pgstore/pgx.go", pgx + "/pgxpool", true},
		{"store/mysqlstore/store.go", pgx, false},
		{"internal/e2e/pg_test.go", pgx, true},
		{"internal/sqldb/sqldb.go", pgx, false},
		{"broker/rabbitbroker/broker.go", amqp, true},
		{"broker/natsbroker/broker.go", amqp, false},
		{"broker/natsbroker/broker.go", nats + "/jetstream", true},
		{"broker/natsbroker/broker.go", server + "/server", false},
		{"internal/conformance/nats_test.go", nats, true},
		{"internal/conformance/nats_test.go", server + "/server", true},
		{"internal/cli/demo.go", server + "/server", true},
		{"store/sqlitestore/store.go", sqlite, false},
		{"cmd/waybill/main.go", sqlite, true},
		{"internal/cli/store.go", sqlite, true},
		{"internal/cli/root.go", cobra, true},
		{"cmd/waybill/main.go", cobra, false},
		{"internal/config/file.go", yaml, true},
		{"relay/relay.go", yaml, false},
		{"relay/relay.go", "golang.org/x/sync/errgroup", false},
		{"internal/e2e/e2e_test.go", "github.com/stretchr/testify/assert", false},
		{"relay/relay.go", "github.com/google/uuidx", false},
		{"relay/relay.go", "log/slog", true},
	}
	for _, tt := range tests {
		t.Run(tt.from+" imports "+tt.imported, func(t *testing.T) {
			t.Parallel()
			got := run(t, CheckImports, source{tt.from, imports(tt.imported)})
			if allowed := len(got) == 0; allowed != tt.allowed {
				t.Errorf("found %q, allowed = %v, want %v", got, allowed, tt.allowed)
			}
		})
	}
}

func TestCheckImports_UnknownPackage(t *testing.T) {
	t.Parallel()
	got := run(t, CheckImports, source{"util/util.go", imports()})
	wantFindings(t, got, "util/util.go:1: package util has no place in the import rule; add it to the table groups")
}

func TestCheckImports_Tests(t *testing.T) {
	t.Parallel()
	const pgx = "github.com/jackc/pgx/v5"
	store := source{"store/pgstore/store.go", imports(pgx, Module+"/relay")}
	tests := []struct {
		name, path string
		imported   string
		allowed    bool
	}{
		{"what the package imports", "store/pgstore/store_test.go", pgx, true},
		{"more than the package imports", "store/pgstore/store_test.go", pgx + "/pgxpool", false},
		{"a package of ours that it does not import", "store/pgstore/store_test.go", Module + "/inbox", false},
		{"the standard library", "store/pgstore/store_test.go", "testing/synctest", true},
		{"the package itself", "store/pgstore/example_test.go", Module + "/store/pgstore", true},
		{"the suite", "store/pgstore/store_test.go", Module + "/store/storetest", true},
		{"the suite, below a store", "relay/relay_test.go", Module + "/store/storetest", false},
		{"a driver in a tool", "internal/e2e/e2e_test.go", pgx, true},
		{"the root package itself", "message_test.go", Module, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, CheckImports, store, source{tt.path, imports(tt.imported)})
			if allowed := len(got) == 0; allowed != tt.allowed {
				t.Errorf("found %q, allowed = %v, want %v", got, allowed, tt.allowed)
			}
		})
	}
}

func TestCheckImports_Testing(t *testing.T) {
	t.Parallel()
	const want = ":2: only tests and suites may import testing"
	tests := []struct {
		path    string
		allowed bool
	}{
		{"relay/fake.go", false},
		{"store/memstore/store.go", false},
		{"internal/loop/loop.go", false},
		{"relay/relay_test.go", true},
		{"store/storetest/suite.go", true},
		{"internal/conformance/servers.go", true},
		{"waybilltest/kit.go", true},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			got := run(t, CheckImports, source{tt.path, imports("testing")})
			if tt.allowed {
				wantFindings(t, got)
			} else {
				wantFindings(t, got, tt.path+want)
			}
		})
	}
}
