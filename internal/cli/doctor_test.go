package cli

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// patient is a database of its own that the doctor looks at.
type patient struct {
	url  string
	args []string // of every examination
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	database := newDatabase(t)
	fillStore(t, opener.StoreConfig{URL: database, Schema: "s"})
	return &patient{url: database, args: []string{"doctor", "--json", "--schema", "s", "--broker", "mem:"}}
}

func (p *patient) sql(t *testing.T, stmt string) {
	t.Helper()
	runSQL(t, p.url, stmt)
}

// examine returns what the doctor finds through a URL, and the exit code.
func (p *patient) examine(t *testing.T, url string, args ...string) ([]finding, int) {
	t.Helper()
	r := runProgram(t.Context(), nil, append(append(slices.Clone(p.args), "--store", url), args...)...)
	var findings []finding
	if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return findings, r.code
}

// wants fails unless a subject has the finding. "…" stands for anything.
func wants(t *testing.T, findings []finding, s ops.Severity, subject, found, advice string) {
	t.Helper()
	var have []string
	for _, f := range findings {
		if f.Subject != subject {
			continue
		}
		if f.Severity == s && matches(f.Found, found) && matches(f.Advice, advice) {
			return
		}
		have = append(have, fmt.Sprintf("%s %s → %s", f.Severity, f.Found, f.Advice))
	}
	t.Errorf("found about %s:\n%s\nwant\n%s %s → %s", subject, strings.Join(have, "\n"), s, found, advice)
}

func matches(got, want string) bool {
	parts := strings.Split(want, "…")
	if !strings.HasPrefix(got, parts[0]) || !strings.HasSuffix(got, parts[len(parts)-1]) {
		return false
	}
	for _, part := range parts {
		_, after, found := strings.Cut(got, part)
		if !found {
			return false
		}
		got = after
	}
	return true
}

// withQuery adds a parameter to a URL.
func withQuery(t *testing.T, rawURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // newer releases of pgx take a plus for one
	return u.String()
}

// TestDoctor_Sessions looks at sessions that begin otherwise than they should.
func TestDoctor_Sessions(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	findings, code := p.examine(t, withQuery(t, p.url, "timezone", "Asia/Tokyo"))
	wants(t, findings, ops.Note, "time zone", "Asia/Tokyo", "instants are stored, so any will do;…")
	if code != exitOK {
		t.Errorf("exit code %d without a problem", code)
	}
	findings, _ = p.examine(t, withQuery(t, p.url, "default_transaction_isolation", "serializable"))
	wants(t, findings, ops.Warning, "isolation", "serializable is the default", "…outbox.InTx does)")
	findings, _ = p.examine(t, withQuery(t, p.url, "pool_max_conns", "1000"))
	wants(t, findings, ops.Warning, "connections", "… of … are open; a relay opens up to 1001, 1000 of them in its pool", "lower pool_max_conns…")
}

// TestDoctor_Parts takes parts of the schema away, one by one.
func TestDoctor_Parts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, stmt, found, advice string }{
		{"index", `DROP INDEX s.outbox_waiting_lane_due_at_idx`,
			"missing, or switched off: index outbox_waiting (lane, due_at) WHERE (due_at IS NOT NULL)", "make it…CREATE INDEX CONCURRENTLY…"},
		{"unique index", `DROP INDEX s.outbox_id_source_tenant_idx`,
			"missing, or switched off: unique index outbox (id, source, tenant)", "make it…CREATE INDEX CONCURRENTLY…"},
		{"trigger disabled", `ALTER TABLE s.outbox DISABLE TRIGGER complete_message`,
			"missing, or switched off: trigger complete_message on outbox", "…ENABLE TRIGGER;…enqueue by SQL"},
		{"trigger dropped", `DROP TRIGGER complete_message ON s.outbox`,
			"missing, or switched off: trigger complete_message on outbox", "…ENABLE TRIGGER;…enqueue by SQL"},
		{"check", `ALTER TABLE s.scheduled DROP CONSTRAINT scheduled_storable`,
			"missing, or switched off: check on scheduled (…)", "make it as waybill migrate --print has it, or restore it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			p.sql(t, tt.stmt)
			findings, code := p.examine(t, p.url)
			wants(t, findings, ops.Problem, "parts", tt.found, tt.advice)
			if code != exitFailed {
				t.Errorf("exit code %d with a problem, want %d", code, exitFailed)
			}
		})
	}
}

// TestDoctor_UnfinishedIndex leaves an index as an interrupted CREATE INDEX CONCURRENTLY does.
func TestDoctor_UnfinishedIndex(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.sql(t, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 's.outbox_ids_enqueued_at_idx'::regclass`)
	findings, _ := p.examine(t, p.url)
	wants(t, findings, ops.Problem, "parts", "missing, or switched off: index outbox_ids (enqueued_at)", "…")
	wants(t, findings, ops.Warning, "parts", "an index was not made to its end: index outbox_ids (enqueued_at)", "drop it, or: REINDEX INDEX CONCURRENTLY")
}

// TestDoctor_Permissions logs in as roles that the script makes, and takes a right away.
func TestDoctor_Permissions(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	prefix := "cli_" + waybill.NewID()[24:] + "_"
	r := runProgram(t.Context(), nil, "roles", "--store", p.url, "--schema", "s", "--prefix", prefix)
	if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	p.sql(t, r.stdout)
	t.Cleanup(func() {
		for _, role := range pgadmin.Roles() {
			runSQL(t, p.url, fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, prefix+string(role)))
		}
	})
	as := func(role string) string { return withQuery(t, p.url, "role", prefix+role) }

	for _, role := range pgadmin.Roles() {
		for _, args := range [][]string{{"--as", string(role)}, nil} {
			findings, code := p.examine(t, as(string(role)), args...)
			for _, f := range findings {
				if f.Severity == ops.Problem {
					t.Errorf("doctor %v as a %s: %s: %s → %s", args, role, f.Subject, f.Found, f.Advice)
				}
			}
			if code != exitOK {
				t.Errorf("doctor %v as a %s: exit code %d", args, role, code)
			}
		}
	}
	findings, _ := p.examine(t, as("writer"), "--as", "writer")
	wants(t, findings, ops.Note, "tables", "not looked at, because a writer does not read them: …pending…", "run doctor as a reader for these")

	findings, code := p.examine(t, as("reader"))
	wants(t, findings, ops.OK, "permissions", prefix+"reader is fit to be reader", "")
	if code != exitOK {
		t.Errorf("a reader finds a problem: %+v", findings)
	}
	findings, _ = p.examine(t, as("operator"), "--as", "operator")
	wants(t, findings, ops.OK, "permissions", prefix+"operator is fit to be operator, reader", "")
	findings, code = p.examine(t, as("relay"), "--as", "consumer")
	wants(t, findings, ops.Problem, "permissions", "for a consumer, "+prefix+"relay lacks INSERT on inbox, …", "grant it the role that the script makes: waybill roles")
	if code != exitFailed {
		t.Errorf("exit code %d with a problem", code)
	}
	p.sql(t, fmt.Sprintf(`REVOKE DELETE ON s.outbox FROM %[1]srelay; REVOKE EXECUTE ON FUNCTION s.add_archive_day FROM %[1]srelay`, prefix))
	findings, _ = p.examine(t, as("relay"), "--as", "relay")
	wants(t, findings, ops.Problem, "permissions", "for a relay, "+prefix+"relay lacks EXECUTE on add_archive_day, DELETE on outbox", "…")
	p.sql(t, fmt.Sprintf(`REVOKE USAGE ON SCHEMA s FROM %swriter`, prefix))
	findings, _ = p.examine(t, as("writer"), "--as", "writer")
	wants(t, findings, ops.Problem, "permissions", "for a writer, "+prefix+"writer lacks USAGE on the schema", "…")
	wants(t, findings, ops.Problem, "permissions", prefix+"writer has the rights of no role", "…")
}

// TestDoctor_Relays sees one that began before the schema was changed, and letters of topics
// that nobody is bound to.
func TestDoctor_Relays(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.sql(t, `INSERT INTO s.relays VALUES ('old', now() - interval '1 day', now() + interval '1 day');
	          UPDATE s.relay_lanes SET owner = 'old';
	          INSERT INTO s.dead_letters (lane, position, id, topic, direct, key, type, source, tenant, subject, payload, content_type, data_schema,
	                 correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at,
	                 origin, reason, error, attempts, first_failed_at, last_failed_at)
	          SELECT lane, position, id, 'nowhere', direct, key, type, source, tenant, subject, payload, content_type, data_schema,
	                 correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at,
	                 'relay', 'unroutable', 'came back', 1, now(), now() FROM s.outbox`) // next to those of a consumer that the store is filled with
	findings, _ := p.examine(t, p.url)
	wants(t, findings, ops.Note, "relays", "1 relay alive, 64 of 64 lanes have an owner; 1 relay began before the newest migration", "restart them…")
	wants(t, findings, ops.Warning, "unroutable", "topic nowhere: 3 messages came back", "…waybill dead requeue")
	wants(t, findings, ops.Warning, "dead letters", "6 open letters: 3 of the relay, 3 of consumer billing", "see: waybill dead groups")

	p.sql(t, `UPDATE s.dead_letters SET state = 'resolved', resolved_at = now()`)
	findings, _ = p.examine(t, p.url)
	wants(t, findings, ops.OK, "dead letters", "none is open", "")

	p.sql(t, `UPDATE s.outbox SET enqueued_at = now() - interval '2 minutes'`)
	findings, _ = p.examine(t, p.url)
	wants(t, findings, ops.Warning, "pending", "3 messages, the oldest is 2m… old", "a relay is alive: its log and /health/ready say…")
}

// TestDoctor_ClockSetBack: rows of a time that is yet to come show that the database's clock was set back.
func TestDoctor_ClockSetBack(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	findings, _ := p.examine(t, p.url)
	if n := slices.IndexFunc(findings, func(f finding) bool { return f.Subject == "clock" && f.Advice == adviceOnSetBack }); n >= 0 {
		t.Errorf("the doctor finds %+v, want nothing of a clock that was set back", findings[n])
	}
	p.sql(t, `UPDATE s.outbox SET enqueued_at = now() + interval '1 hour'`)
	findings, _ = p.examine(t, p.url)
	wants(t, findings, ops.Warning, "clock", "the store's was set back: a message was enqueued … from now", adviceOnSetBack)

	p.sql(t, `INSERT INTO s.outbox_archive (published_at, lane, position, id, topic, direct, key, type, source, tenant, subject, content_type, data_schema,
	                 correlation_id, causation_id, idempotency_key, trace_parent, trace_state, enqueued_at)
	          SELECT now() + interval '1 minute', lane, position, id, topic, direct, key, type, source, tenant, subject, content_type, data_schema,
	                 correlation_id, causation_id, idempotency_key, trace_parent, trace_state, now() FROM s.outbox;
	          DELETE FROM s.outbox`)
	findings, _ = p.examine(t, p.url)
	wants(t, findings, ops.Warning, "clock", "the store's was set back: a message was published … from now", adviceOnSetBack)
}

// TestDoctor_Lanes: a program that gives its rows lanes of its own choice is found.
func TestDoctor_Lanes(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.sql(t, `INSERT INTO s.outbox (topic, key, lane) SELECT 'orders', 'customer-1', n FROM generate_series(39, 41) AS n`) // its lane is 40
	findings, _ := p.examine(t, p.url)
	wants(t, findings, ops.Warning, "lanes", "2 messages of the outbox in another lane…", "…INSERT on the other columns alone")
}

// TestDoctor_OldSchema: what an old schema needs is a migration, not rights.
func TestDoctor_OldSchema(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][]string{
		"sqlite":   {"--store", "sqlite:" + filepath.Join(t.TempDir(), "w.db")},
		"postgres": {"--store", newDatabase(t)},
	} {
		if r := runProgram(t.Context(), nil, append([]string{"migrate", "--to", "1"}, at...)...); r.code != exitOK {
			t.Fatal(r.stderr)
		}
		for command, want := range map[string]string{
			"doctor": "schema … version 1, this release works with … → run: waybill migrate",
			"relay":  "schema version is 1, this release works with …; run: waybill migrate",
		} {
			r := runProgram(t.Context(), nil, append([]string{command, "--broker", "nats://127.0.0.1:1"}, at...)...)
			if r.code != exitFailed || !matches(r.stdout+r.stderr, "…"+want+"…") {
				t.Errorf("%s on %s: exit code %d, %s%s, want %s", command, name, r.code, r.stdout, r.stderr, want)
			}
		}
	}
}

// TestDoctor_Healthy: on defaults, with everything as it should be, nothing is left to be done.
func TestDoctor_Healthy(t *testing.T) {
	t.Parallel()
	at := []string{"--json", "--store", "sqlite:" + filepath.Join(t.TempDir(), "w.db")}
	if r := runProgram(t.Context(), nil, append([]string{"migrate"}, at...)...); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	for _, broker := range []string{"", "mem:", brokerURL("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")} {
		r := runProgram(t.Context(), nil, append([]string{"doctor", "--broker", broker}, at...)...)
		var findings []finding
		if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
			t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
		}
		for _, f := range findings {
			if f.Severity != ops.OK && f.Severity != ops.Note {
				t.Errorf("with the broker %q: %s %s: %s → %s", broker, f.Severity, f.Subject, f.Found, f.Advice)
			}
		}
	}
}

// TestDoctor_File: a file that Waybill makes is its owner's alone, whatever the umask, and so are those
// that SQLite puts next to it; one that was there stays as it is, and doctor tells who may read it.
func TestDoctor_File(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "w.db")
		if there {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
				t.Fatal(err)
			}
		}
		at := []string{"--json", "--store", "sqlite:" + path}
		if r := runProgram(t.Context(), nil, append([]string{"migrate"}, at...)...); r.code != exitOK {
			t.Fatal(r.stderr)
		}
		db, err := sql.Open("sqlite", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil { // brings -wal and -shm back
			t.Fatal(err)
		}
		want := map[bool]fs.FileMode{false: 0o600, true: 0o644}[there]
		for _, suffix := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(path + suffix)
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has the mode %v, %v, want %v", path+suffix, info.Mode(), err, want)
			}
		}
		r := runProgram(t.Context(), nil, append([]string{"doctor", "--broker", "mem:"}, at...)...)
		if told := strings.Contains(r.stdout, "every user of the machine may read"); told != there {
			t.Errorf("doctor tells that others may read the file: %v, want %v: %s", told, there, r.stdout)
		}
	}
}

// TestDoctor_Probe publishes to a topic that nobody knows.
func TestDoctor_Probe(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	for _, tt := range []struct {
		broker, found string
		lacks         bool // what has to be made first
	}{
		{"mem:", "a message to a topic that nobody knows came back", false},
		{brokerURL("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/"), "a message to a topic that nobody knows came back", true},
		{brokerURL("REDIS_URL", "redis://127.0.0.1:6379/0"), "a message to a topic that nobody knows came back", false},
		{brokerURL("NATS_URL", "nats://127.0.0.1:4222"), "confirmed; the stream keeps it under the topic waybill-doctor-…", true},
	} {
		name := "doctor-" + waybill.NewID()[24:]
		at := []string{"--broker", tt.broker, "--rabbitmq-exchange", name, "--nats-stream", name, "--nats-subject-prefix", name + "."}
		if tt.lacks {
			r := runProgram(t.Context(), nil, append([]string{"topology", "apply", "--topic", "orders"}, at...)...)
			if r.code != exitOK {
				t.Fatal(r.stderr)
			}
		}
		findings, code := p.examine(t, p.url, append(at, "--probe")...)
		wants(t, findings, ops.OK, "probe", tt.found, "")
		if code != exitOK {
			t.Errorf("exit code %d: %+v", code, findings)
		}
	}
}

// TestDoctor_Practices sets options outside of what has proved good.
func TestDoctor_Practices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, found string }{
		{"--relay-poll-interval 4s", "relay.poll_interval is 4s, good practice is 5s to 30s"},
		{"--relay-poll-interval 31s", "relay.poll_interval is 31s, good practice is 5s to 30s"},
		{"--relay-poll-interval 30s --relay-batch-size 500 --relay-max-retries 20", ""},
		{"--relay-batch-size 99", "relay.batch_size is 99, good practice is 100 to 500"},
		{"--relay-batch-size 501 --relay-max-retries 0", "relay.batch_size is 501, good practice is 100 to 500; relay.max_retries is 0, good practice is 1 to 20"},
		{"--retry-base-delay 20s", "retry.max_delay is 1m0s, good practice is 4 times retry.base_delay at least, so that delays grow"},
		{"--cleanup-enabled=false --dead-letter-enabled=false", "cleanup.enabled is false, good practice is true; dead_letter.enabled is false, good practice is true"},
		{"--outbox-retention 0", "outbox.retention is 0s, good practice is 1d to 90d"},
	} {
		args := append([]string{"doctor", "--json", "--store", "sqlite:" + t.TempDir() + "/none.db"}, strings.Fields(tt.args)...)
		var findings []finding
		r := runProgram(t.Context(), nil, args...)
		if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
			t.Fatalf("%s: %v: %s%s", tt.args, err, r.stdout, r.stderr)
		}
		want := warning("practices", tt.found, "see docs/good-practices.md")
		if tt.found == "" {
			want = passing("practices", "the options are within the ranges of docs/good-practices.md")
		}
		wants(t, findings, want.Severity, "practices", want.Found, want.Advice)
	}
}

func TestCheckClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for offset, want := range map[time.Duration]ops.Severity{0: ops.OK, 900 * time.Millisecond: ops.OK, 2 * time.Second: ops.Warning, -2 * time.Second: ops.Warning} {
		if got := checkClock(opener.Facts{Clock: now.Add(offset)}, now, now.Add(10*time.Millisecond)); got.Severity != want {
			t.Errorf("an offset of %v is %s, want %s", offset, got.Severity, want)
		}
	}
}

func brokerURL(name, fallback string) string {
	if u := os.Getenv(name); u != "" {
		return u
	}
	return fallback
}
