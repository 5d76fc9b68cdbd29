package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestAS70PartsAlone builds inbox only, outbox only and both, each with parts of one's own.
func TestAS70PartsAlone(t *testing.T) {
	// Not parallel: it counts goroutines.
	w := plainWorld(t)
	w.pool.Reset()
	before := runtime.NumGoroutine()

	m := waybill.Message{ID: "m", Type: "t", Topic: "t", Source: "s"}
	ran, err := inbox.Process(t.Context(), w.store, "only-inbox", &m, func(ctx context.Context, tx pgx.Tx) error {
		return w.addEffect(ctx, tx, "only-inbox", "m")
	})
	if err != nil || !ran {
		t.Errorf("inbox only: Process() = %v, %v; want it to run", ran, err)
	}

	w.enqueue(t, numbered("m", "orders", 10)...)
	pub := &recorder{}
	r, err := relay.New(w.store, pub, quick(relay.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	stopRelay := run(t, t.Context(), r.Run)
	c, err := consumer.New(silent{}, w.store, w.effectHandler("x"), quickConsumer(consumer.Config{Name: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	stopConsumer := run(t, t.Context(), c.Run)
	eventually(t, "outbox only: all are published", func() bool { return len(pub.ids()) == 10 })
	if err := r.Run(t.Context()); err == nil {
		t.Error("a second Run of a relay returned nil")
	}
	stopRelay()
	stopConsumer()
	w.pool.Reset()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// silent is a subscriber that receives nothing.
type silent struct{}

func (silent) Subscribe(ctx context.Context, _ int, _ func(consumer.Delivery)) error {
	<-ctx.Done()
	return nil
}

func TestAS70InvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	var invalid *waybill.InvalidError
	for field, cfg := range map[string]relay.Config{
		"relay.Config.PollInterval":  {PollInterval: time.Millisecond},
		"relay.Config.BatchSize":     {BatchSize: -1},
		"relay.Config.Parallelism":   {Parallelism: 65},
		"relay.Config.LeaseTTL":      {LeaseTTL: 5 * time.Second},
		"relay.Config.Retention":     {Retention: -2},
		"relay.Config.Mode":          {Mode: 7},
		"relay.Config.ShutdownGrace": {ShutdownGrace: -1},
		"Retry.MaxRetries":           {Retry: waybill.RetryPolicy{MaxRetries: -2}},
	} {
		if _, err := relay.New(w.store, &recorder{}, cfg); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("bad %s: %v, want an InvalidError that names it", field, err)
		}
	}
	for field, cfg := range map[string]consumer.Config{
		"consumer.Config.Name":        {},
		"consumer.Config.Concurrency": {Name: "x", Concurrency: -1},
		"consumer.Config.Prefetch":    {Name: "x", Concurrency: 4, Prefetch: 2},
		"consumer.Config.Order":       {Name: "x", Order: 9},
	} {
		if _, err := consumer.New(silent{}, w.store, w.effectHandler("x"), cfg); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("bad %s: %v, want an InvalidError that names it", field, err)
		}
	}
	if _, err := outbox.NewWriter(w.store, outbox.Config{}); !errors.As(err, &invalid) {
		t.Errorf("a writer without source: %v, want an InvalidError", err)
	}
	if _, err := relay.New(w.store, &recorder{}, relay.Config{}); err != nil {
		t.Errorf("the shipped defaults are refused: %v", err)
	}
}

func TestAS71Upgrade(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	newest := len(w.store.Migrations())
	for name, cfg := range map[string]pgstore.Config{
		"own schema and prefix": {Schema: w.schema + "_2", TablePrefix: "app_"},
		"hostile names":         {Schema: fmt.Sprintf(`x"; DROP SCHEMA public; -- %08x`, rand.Uint32()), TablePrefix: `o'b"r. `},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pgstore.New(w.pool, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer w.exec(t, "DROP SCHEMA "+pgx.Identifier{cfg.Schema}.Sanitize()+" CASCADE")
			for target := 1; target <= newest; target++ { // every version from the first on
				if v, err := s.Migrate(t.Context(), pgstore.MigrateOptions{Version: target}); err != nil || v != target {
					t.Fatalf("Migrate to %d = %d, %v", target, v, err)
				}
			}
			if v, err := s.Migrate(t.Context(), pgstore.MigrateOptions{Source: `o'brien\`}); err != nil || v != newest {
				t.Fatalf("Migrate again = %d, %v; want nothing to do", v, err)
			}
			if v, err := s.SchemaVersion(t.Context()); err != nil || v != newest {
				t.Errorf("SchemaVersion() = %d, %v", v, err)
			}
			table := pgx.Identifier{cfg.Schema, cfg.TablePrefix + "outbox"}.Sanitize()
			w.exec(t, "INSERT INTO "+table+" (id, topic, payload) VALUES ('m', 't', '{}')")
			pub := &recorder{}
			r, err := relay.New(s, pub, quick(relay.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, t.Context(), r.Run)
			eventually(t, "a message goes its way", func() bool { return pub.count("m") == 1 })
			stop()
			if got := pub.sent[0].Source; got != `o'brien\` {
				t.Errorf("source = %q, want the one set at migrate", got)
			}
		})
	}
	for name, cfg := range map[string]pgstore.Config{
		"blank": {Schema: "  "}, "long": {Schema: strings.Repeat("x", 41)}, "control character": {TablePrefix: "a\x00"}, "template": {TablePrefix: "{outbox}"},
	} {
		var invalid *waybill.InvalidError
		if _, err := pgstore.New(w.pool, cfg); !errors.As(err, &invalid) {
			t.Errorf("a %s name: %v, want an InvalidError", name, err)
		}
	}
	if v, err := w.store.SchemaVersion(t.Context()); err != nil || v != newest {
		t.Errorf("SchemaVersion() = %d, %v", v, err)
	}
}

// TestMigrateByHand runs what waybill migrate --print shows through psql.
func TestMigrateByHand(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	s, err := pgstore.New(w.pool, pgstore.Config{Schema: w.schema + "_h"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Migrations() {
		w.psql(t, m.Up)
	}
	defer w.exec(t, "DROP SCHEMA "+pgx.Identifier{w.schema + "_h"}.Sanitize()+" CASCADE")
	if v, err := s.Migrate(t.Context(), pgstore.MigrateOptions{Source: "psql"}); err != nil || v != len(s.Migrations()) {
		t.Errorf("Migrate after migrations by hand = %d, %v; want nothing left to do", v, err)
	}
}

// TestDownMigrations undoes every step.
func TestDownMigrations(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	s, err := pgstore.New(w.pool, pgstore.Config{Schema: w.schema + "_d"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context(), pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := s.Migrations()
	for i := len(list) - 1; i >= 0; i-- {
		w.exec(t, list[i].Down)
	}
	if n := w.number(t, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relkind IN ('r', 'p', 'v')", w.schema+"_d"); n != 0 {
		t.Errorf("%d tables or views are left, want none", n)
	}
	w.exec(t, "DROP SCHEMA "+pgx.Identifier{w.schema + "_d"}.Sanitize()+" CASCADE")
}

// TestSQLContract enqueues through psql, with plain INSERTs and with the function.
func TestSQLContract(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		const escapes = `{"s":"\n\u00e9\\","t":"O'Brien"}`
		quoted := strings.ReplaceAll(escapes, "'", "''")
		w.psql(t, "INSERT INTO "+w.table("outbox")+" (topic, payload) VALUES ('plain', '"+quoted+"')")
		w.psql(t, "SELECT "+w.table("enqueue")+"('called', '"+quoted+`', type => 'order.placed', key => 'k', id => 'given', tenant => 'acme', headers => '{"a":"b"}')`)
		w.psql(t, "SELECT "+w.table("enqueue")+"('called', '{}', id => 'given')") // a duplicate stores nothing
		w.psql(t, "INSERT INTO "+w.table("outbox")+` (topic, payload_bytes) VALUES ('bytes', '\x00ff')`)
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		eventually(t, "the three are published", func() bool { return len(pub.ids()) == 3 })
		pub.mu.Lock()
		defer pub.mu.Unlock()
		for _, m := range pub.sent {
			switch m.Topic {
			case "plain":
				if string(m.Payload) != escapes || m.Type != "plain" || m.Source != "psql" || m.Tenant != waybill.DefaultTenant || m.ID == "" || m.Time.IsZero() || m.ContentType != "application/json" {
					t.Errorf("plain INSERT arrived as %+v", *m.Message)
				}
			case "called":
				if string(m.Payload) != escapes || m.Type != "order.placed" || m.Key != "k" || m.ID != "given" || m.Tenant != "acme" || m.Headers["a"] != "b" {
					t.Errorf("enqueue() arrived as %+v", *m.Message)
				}
			case "bytes":
				if string(m.Payload) != "\x00\xff" {
					t.Errorf("bytes arrived as %q", m.Payload)
				}
			}
		}
	})
}

// psql runs a statement through PostgreSQL's own client.
func (w *world) psql(t *testing.T, statement string) {
	t.Helper()
	u, _, _ := strings.Cut(w.dsn, "?")
	out, err := exec.CommandContext(t.Context(), "psql", u, "-v", "ON_ERROR_STOP=1", "-qAtc", statement).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
}

// TestPsqlToNATS is a message by plain INSERT that arrives as a valid CloudEvent.
func TestPsqlToNATS(t *testing.T) {
	t.Parallel()
	w, b := plainWorld(t), newBroker(t, "nats")
	conn := b.connect(t)
	w.psql(t, "INSERT INTO "+w.table("outbox")+` (topic, payload) VALUES ('orders', '{"a":"\u00e9"}')`)
	w.startRelay(t, conn.Publisher(), relay.Config{})
	headers, payload := b.firstNATSMessage(t)
	if string(payload) != `{"a":"\u00e9"}` {
		t.Errorf("payload = %s", payload)
	}
	for name, want := range map[string]string{"ce-specversion": "1.0", "ce-type": "orders", "ce-source": "psql", "content-type": "application/json"} {
		if got := headers[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if headers["ce-id"] == "" {
		t.Error("ce-id is missing")
	}
	if _, err := time.Parse(time.RFC3339Nano, headers["ce-time"]); err != nil {
		t.Errorf("ce-time: %v", err)
	}
}

// TestLeastPrivilegeWriter: a role with INSERT on the table alone may enqueue.
func TestLeastPrivilegeWriter(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	role := pgx.Identifier{"role_" + w.schema}.Sanitize()
	w.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	w.exec(t, "GRANT USAGE ON SCHEMA "+w.ident()+" TO "+role)
	w.exec(t, "GRANT INSERT ON "+w.table("outbox")+" TO "+role)
	w.psql(t, "SET ROLE "+role+"; INSERT INTO "+w.table("outbox")+" (topic, payload) VALUES ('t', '{}')")
	if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox")); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestLaneIsFrozen holds the hash that spreads keys over lanes: rows of one version of the
// library must find their lane in every other.
func TestLaneIsFrozen(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	for key, want := range map[string]int{"customer-1": 40, "customer-2": 33, `back\slash`: 20, "ü": 32, " ": 54} {
		if got := w.number(t, "INSERT INTO "+w.table("outbox")+" (topic, key) VALUES ('t', $1) RETURNING lane", key); got != want {
			t.Errorf("lane of %q = %d, want %d", key, got, want)
		}
	}
}

// TestObjectMapperTransaction hands in the *sql.Tx under a transaction of bun. gorm has it in
// Statement.ConnPool, ent under a driver that is opened over one.
func TestObjectMapperTransaction(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		db, err := sql.Open("pgx", w.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store, err := pgstore.NewSQL(db, pgstore.Config{Schema: w.schema})
		if err != nil {
			t.Fatal(err)
		}
		writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop", Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		payload := "with \\ \" { } , NULL and é\n"
		mapper := bun.NewDB(db, pgdialect.New())
		err = mapper.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewRaw("INSERT INTO "+w.table("orders")+" VALUES (?)", "o1").Exec(ctx); err != nil {
				return err
			}
			_, err := writer.Enqueue(ctx, tx.Tx, waybill.Message{ID: "orm", Topic: "orders", Payload: []byte(payload)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		eventually(t, "it is published", func() bool { return pub.count("orm") == 1 })
		pub.mu.Lock()
		defer pub.mu.Unlock()
		for _, m := range pub.sent {
			if m.ID == "orm" && string(m.Payload) != payload {
				t.Errorf("payload = %q, want %q", m.Payload, payload)
			}
		}
	})
}

func TestHealthBeforeRun(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	r, err := relay.New(w.store, &recorder{}, relay.Config{Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if r.Health() == nil {
		t.Error("Health() = nil before Run")
	}
	if s := fmt.Sprint(r.Status().Node); s == "" {
		t.Error("Status() names no node")
	}
}

// TestDatabaseRefusesWhatNoRelayCouldMend: foreign programs are told at once.
func TestDatabaseRefusesWhatNoRelayCouldMend(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	for name, columns := range map[string]string{
		"empty id":          "(id, topic) VALUES ('', 't')",
		"long id":           "(id, topic) VALUES (repeat('x', 256), 't')",
		"long topic":        "(topic) VALUES (repeat('x', 250))",
		"long key":          "(topic, key) VALUES ('t', repeat('x', 256))",
		"infinite expiry":   "(topic, expires_at) VALUES ('t', 'infinity')",
		"infinite delivery": "(topic, deliver_at) VALUES ('t', '-infinity')",
		"two payloads":      `(topic, payload, payload_bytes) VALUES ('t', 'a', '\x00')`,
		"no topic":          "(payload) VALUES ('a')",
		"own position":      "(topic, position) VALUES ('t', 1)",
		"own lane":          "(topic, lane) VALUES ('t', 1)",
	} {
		if _, err := w.pool.Exec(t.Context(), "INSERT INTO "+w.table("outbox")+" "+columns); err == nil {
			t.Errorf("a row with %s is accepted", name)
		}
	}
}
