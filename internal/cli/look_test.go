package cli

import (
	"path/filepath"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/config"
)

// look runs everything that only looks at a broker, under the given flags.
func look(t *testing.T, flags map[string]string) {
	t.Helper()
	flags["store"] = "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	do := func(args ...string) result {
		for name, value := range flags {
			args = append(args, "--"+name+"="+value)
		}
		return runProgram(t.Context(), nil, args...)
	}
	if r := do("migrate"); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	r := do("doctor")
	if r.code != exitOK || !strings.Contains(r.stdout, "answers, and has no ") || !strings.Contains(r.stdout, "waybill topology apply") {
		t.Errorf("doctor: exit code %d, %s%s, want a note that something is not made yet", r.code, r.stdout, r.stderr)
	}
	if r := do("topology", "plan", "--topic=orders", "--group=billing=orders"); r.code != exitOK {
		t.Errorf("topology plan: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if r := do("janitor", "--once"); r.code != exitOK {
		t.Errorf("janitor: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	do("doctor", "--probe")
	do("explain", "orders") // of what is not there, on NATS nothing is known

	cfg, err := config.Load(flags, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	store, err := storeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	examination{cfg: cfg, store: store}.forDashboard(t.Context())
}

// TestLook_NATS: a look makes nothing on a server that has nothing.
func TestLook_NATS(t *testing.T) {
	t.Parallel()
	server, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer server.Shutdown()
	if !server.ReadyForConnections(testPatience) {
		t.Fatal("the NATS server of this test does not start")
	}
	look(t, map[string]string{"broker": server.ClientURL()})
	conn, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		t.Errorf("the stream %s is left behind", name)
	}
	if names.Err() != nil {
		t.Error(names.Err())
	}
}

// TestLook_RabbitMQ: a look makes nothing under a name that is not there yet.
func TestLook_RabbitMQ(t *testing.T) {
	t.Parallel()
	conn, err := amqp.Dial(rabbitURL())
	if err != nil {
		t.Fatalf("RabbitMQ does not answer (%v); start it with: make services", err)
	}
	defer conn.Close()
	exchange := "look-" + waybill.NewID()
	look(t, map[string]string{"broker": rabbitURL(), "rabbitmq-exchange": exchange})
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclarePassive(exchange, "topic", true, false, false, false, nil); err == nil {
		t.Errorf("the exchange %s is left behind", exchange)
		_ = ch.ExchangeDelete(exchange, false, false) // only this test's leftovers
	}
}
