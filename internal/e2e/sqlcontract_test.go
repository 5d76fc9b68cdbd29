package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/relay"
)

// TestSQLContract enqueues through psql, with plain INSERTs and with the function.
//
//test:sessions
//test:pooled
func TestSQLContract(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		const escapes = `{"s":"\n\u00e9\\","t":"O'Brien"}`
		quoted := strings.ReplaceAll(escapes, "'", "''")
		w.psql(t, "INSERT INTO "+w.table("outbox")+" (topic, payload) VALUES ('plain', '"+quoted+"')")
		w.psql(t, "SELECT "+w.table("enqueue")+"('called', '"+quoted+`', type => 'order.placed', key => 'k', id => 'given', tenant => 'acme', headers => '{"a":"b"}')`)
		w.psql(t, "SELECT "+w.table("enqueue")+"('called', '{}', id => 'given', tenant => 'acme')") // a duplicate stores nothing
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
//
//test:sessions
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
//
//test:sessions
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

// TestLaneIsFrozen (AS-57) holds the hash that spreads keys over lanes: rows of one version of the
// library must find their lane in every other.
//
//test:sessions
func TestLaneIsFrozen(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	for key, want := range map[string]int{"customer-1": 40, "customer-2": 33, `back\slash`: 20, "ü": 32, " ": 54} {
		if got := w.number(t, "INSERT INTO "+w.table("outbox")+" (topic, key) VALUES ('t', $1) RETURNING lane", key); got != want {
			t.Errorf("lane of %q = %d, want %d", key, got, want)
		}
		for _, m := range []waybill.Message{{ID: "any", Key: key}, {ID: key}} {
			if got := lanehash.Of(&m); got != want {
				t.Errorf("lane of %q by the library = %d, want %d", key, got, want)
			}
		}
	}
}

// TestDatabaseRefusesWhatNoRelayCouldMend: foreign programs receive the error at once.
//
//test:sessions
func TestDatabaseRefusesWhatNoRelayCouldMend(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	for name, columns := range map[string]string{
		"empty id":                "(id, topic) VALUES ('', 't')",
		"long id":                 "(id, topic) VALUES (repeat('x', 256), 't')",
		"long topic":              "(topic) VALUES (repeat('x', 250))",
		"long key":                "(topic, key) VALUES ('t', repeat('x', 256))",
		"infinite expiry":         "(topic, expires_at) VALUES ('t', 'infinity')",
		"infinite delivery":       "(topic, deliver_at) VALUES ('t', '-infinity')",
		"two payloads":            `(topic, payload, payload_bytes) VALUES ('t', 'a', '\x00')`,
		"no topic":                "(payload) VALUES ('a')",
		"own position":            "(topic, position) VALUES ('t', 1)",
		"a lane there is none of": "(topic, lane) VALUES ('t', 64)",
	} {
		if _, err := w.pool.Exec(t.Context(), "INSERT INTO "+w.table("outbox")+" "+columns); err == nil {
			t.Errorf("a row with %s is accepted", name)
		}
	}
}
