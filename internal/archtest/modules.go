package archtest

import (
	"slices"
	"strings"
)

// tools are the units that end users do not import, so that drivers and servers in them
// reach nobody's program.
var tools = []string{"internal/cli", "internal/conformance", "internal/e2e", "internal/interleave", "internal/sim", "internal/soak"}

// modules says which units may import a module of others. What is not in the table may be
// imported by nobody.
var modules = []struct {
	path  string
	units []string
	tools bool // and the tools
}{
	{path: "github.com/google/uuid", units: []string{""}},
	{path: "github.com/jackc/pgx/v5", units: []string{"store/pgstore", "examples/*"}, tools: true},
	{path: "github.com/go-sql-driver/mysql", tools: true},
	{path: "github.com/rabbitmq/amqp091-go", units: []string{"broker/rabbitbroker"}, tools: true},
	{path: "github.com/twmb/franz-go/pkg/kfake", units: []string{"internal/conformance", "internal/e2e"}}, // a server for tests
	{path: "github.com/twmb/franz-go", units: []string{"broker/kafkabroker", "internal/conformance", "internal/e2e"}},
	{path: "github.com/Azure/azure-sdk-for-go/sdk/azcore", units: []string{"broker/asbbroker"}, tools: true},
	{path: "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus", units: []string{"broker/asbbroker"}, tools: true},
	{path: "github.com/Azure/go-amqp", units: []string{"broker/asbbroker", "internal/testtools"}, tools: true},
	{path: "github.com/nats-io/nats.go", units: []string{"broker/natsbroker", "examples/incident"}, tools: true},
	{path: "github.com/nats-io/nats-server/v2", tools: true},
	{path: "github.com/redis/go-redis/v9", units: []string{"broker/redisbroker", "store/redisstore", "internal/redisurl"}, tools: true},
	{path: "go.mongodb.org/mongo-driver/v2", units: []string{"store/mongostore", "internal/testtools"}, tools: true},
	{path: "github.com/uptrace/bun", units: []string{"internal/e2e"}}, // its transactions, handed in
	{path: "modernc.org/sqlite", units: []string{"cmd/*", "examples/*"}, tools: true},
	{path: "go.opentelemetry.io/otel/sdk", units: []string{"internal/otlp", "internal/e2e"}},
	{path: "go.opentelemetry.io/otel", units: []string{"observe/otelobserve", "internal/otlp", "internal/e2e"}},
	{path: "github.com/prometheus/client_golang", units: []string{"observe/promobserve", "examples/tutorial"}, tools: true},
	{path: "github.com/prometheus/client_model", units: []string{"internal/e2e"}},
	{path: "github.com/robfig/cron/v3", units: []string{"schedule"}}, // reads cron expressions
	{path: "github.com/spf13/cobra", units: []string{"internal/cli"}},
	{path: "github.com/spf13/pflag", units: []string{"internal/cli"}},
	{path: "github.com/anishathalye/porcupine", units: []string{"store/storetest"}}, // looks for an order of calls that explains their answers
	{path: "pgregory.net/rapid", units: []string{"internal/interleave"}},            // draws sequences of operations, and shortens those that fail
	{path: "go.yaml.in/yaml/v3", units: []string{"internal/cli", "internal/config"}},
}

// checkModule returns what is wrong with an import of another module's package, or "".
func checkModule(unit, imported string) string {
	for _, m := range modules {
		if imported != m.path && !strings.HasPrefix(imported, m.path+"/") {
			continue
		}
		if m.tools && slices.Contains(tools, unit) || slices.ContainsFunc(m.units, func(pattern string) bool { return matches(pattern, unit) }) {
			return ""
		}
		return shown(unit) + " must not import " + m.path
	}
	return "no package may import " + imported + "; add its module to the table modules"
}

// matches reports whether unit is the pattern, or below it if it ends with "/*".
func matches(pattern, unit string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return unit == pattern || wild && strings.HasPrefix(unit, prefix)
}
