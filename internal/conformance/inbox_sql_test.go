package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// inboxSQL is an inbox as programs in other languages reach it, next to the Go inbox on the same tables.
type inboxSQL struct {
	*testing.T
	db    *sql.DB
	store contract.Inbox[*sql.Tx]
	ask   func(tx *sql.Tx, args ...any) (string, error) // takes consumer, id, type, source, tenant, idempotency key and hash
	waits func()                                        // returns when a statement waits for a lock; nil where it fails at once
}

// argsOf are the arguments of a message as it comes in.
func argsOf(consumer string, m *waybill.Message) []any {
	return []any{consumer, m.ID, m.Type, m.Source, m.Tenant, m.IdempotencyKey, inbox.RecordOf(consumer, m).PayloadHash}
}

func TestInboxSQL_Postgres(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]pgstore.Config{
		"plain": {}, "odd names": {Schema: `way-bill"x`, TablePrefix: `My "pre'fix %`}, "compact": {CompactInbox: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPostgres(t, nil, cfg)
			cfg := p.schema(t)
			store, err := pgstore.NewSQL(p.db, cfg)
			must(t, err)
			s := inboxSQL{T: t, db: p.db, store: store}
			s.ask = func(tx *sql.Tx, args ...any) (outcome string, err error) {
				err = tx.QueryRow("SELECT "+tableOf(cfg, "inbox_record")+"($1, $2, $3, $4, $5, $6, $7)", args...).Scan(&outcome)
				return outcome, err
			}
			s.waits = func() {
				s.waitFor(p.db, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%inbox%' AND query LIKE $1", "%"+strings.ReplaceAll(cfg.Schema, `"`, `""`)+"%")
			}
			s.run()
		})
	}
}

func TestInboxSQL_MySQL(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*mysqlServer{
		"plain": newMySQL(t, nil, mysqlstore.Config{}), "hostile": newMySQL(t, hostileMySQL(), mysqlstore.Config{TablePrefix: oddMySQLPrefix}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := m.migrated(t)
			s := inboxSQL{T: t, db: store.db, store: store}
			s.ask = func(tx *sql.Tx, args ...any) (outcome string, err error) {
				err = tx.QueryRow("CALL "+store.table("inbox_record")+"(?, ?, ?, ?, ?, ?, ?)", args...).Scan(&outcome)
				return outcome, err
			}
			s.waits = func() {
				s.waitFor(innodbTrx{store.db}, "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id IN (SELECT id FROM information_schema.processlist WHERE db = ?)", store.name)
			}
			s.run()
		})
	}
}

func TestInboxSQL_SQLite(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sqlitestore.Config{"plain": {}, "odd names": {TablePrefix: `My "pre'fix $1 ?2 %`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openSQLite(t, filepath.Join(t.TempDir(), "test.db"), "_pragma=journal_mode(wal)", cfg)
			_, err := store.Migrate(t.Context(), sqlitestore.MigrateOptions{})
			must(t, err)
			s := inboxSQL{T: t, db: store.db, store: store}
			table := store.table("inbox_record")
			s.ask = func(tx *sql.Tx, args ...any) (outcome string, err error) {
				_, err = tx.Exec("INSERT INTO "+table+" (consumer, id, type, source, tenant, idempotency_key, payload_hash) VALUES (?, ?, ?, ?, ?, ?, ?)", args...)
				if err == nil {
					err = tx.QueryRow("SELECT outcome FROM " + table).Scan(&outcome)
				}
				return outcome, err
			}
			s.run()
		})
	}
}

func (s *inboxSQL) run() {
	s.outcomes()
	s.shares()
	s.atOnce()
	s.atOnceWithGo()
	s.aliases()
	s.limits()
}

func (s *inboxSQL) waitFor(db rowQuerier, stmt string, args ...any) {
	s.Helper()
	waitFor(s.T, "the second one waits", func() bool {
		var n int
		must(s.T, db.QueryRow(stmt, args...).Scan(&n))
		return n > 0
	})
}

// says asks in a transaction of its own, and commits.
func (s *inboxSQL) says(want string, args ...any) {
	s.Helper()
	tx := beginSQL(s.T, s.db)
	got, err := s.ask(tx, args...)
	must(s.T, err)
	must(s.T, tx.Commit())
	if got != want {
		s.Errorf("of %q: %q, want %q", args, got, want)
	}
}

// handles gives a message to the Go inbox.
func (s *inboxSQL) handles(want inbox.Outcome, consumer string, m *waybill.Message) {
	s.Helper()
	got, err := s.store.ProcessOnce(s.Context(), inbox.RecordOf(consumer, m), func(context.Context, *sql.Tx) error { return nil })
	must(s.T, err)
	if got != want {
		s.Errorf("ProcessOnce(%s, %q) = %v, want %v", consumer, m.DedupKey(), got, want)
	}
}

func sampleMessage(id string) *waybill.Message {
	m := &waybill.Message{ID: id, Topic: "orders", Source: "shop", Type: "order.placed@v2", Payload: []byte(`{"id":17}`)}
	m.Complete()
	return m
}

// outcomes are the answers about a message, with what is left to its default.
func (s *inboxSQL) outcomes() {
	m := sampleMessage("outcomes")
	args := argsOf("billing", m)
	tx := beginSQL(s.T, s.db)
	if got, err := s.ask(tx, args...); got != "new" || err != nil {
		s.Errorf("the first time: %q, %v, want new", got, err)
	}
	must(s.T, tx.Rollback())
	s.says("new", args...) // what was rolled back was not handled
	s.says("duplicate", args...)
	other := sampleMessage("outcomes")
	other.Payload = []byte(`{"id":18}`)
	s.says("conflict", argsOf("billing", other)...)
	s.says("duplicate", "billing", m.ID, m.Type, m.Source, nil, nil, nil) // a hash that is not known conflicts with none
	s.says("new", "shipping", m.ID, m.Type, m.Source, nil, nil, nil)
	s.says("duplicate", argsOf("shipping", m)...)
	s.says("new", "billing", "bare", "t", nil, nil, nil, nil)
	s.says("duplicate", "billing", "bare", "t", "", "default", "", "")

	dead := sampleMessage("dead")
	_, err := s.store.BuryMessage(s.Context(), inbox.Letter{
		Record: inbox.RecordOf("billing", dead), Message: *dead, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1,
	})
	must(s.T, err)
	s.says("dead", argsOf("billing", dead)...)
}

// shares holds that a message is handled once by the Go inbox and other programs together, whoever is first.
func (s *inboxSQL) shares() {
	for i, m := range []waybill.Message{
		{}, {Tenant: "acme"}, {Source: "other"}, {Type: "order.placed@v3"}, {Type: "order.paid"}, {IdempotencyKey: "order-17"},
		{Tenant: strings.Repeat("t", waybill.MaxTenantLen), Source: strings.Repeat("s", waybill.MaxSourceLen), Type: strings.Repeat("y", waybill.MaxTypeLen), IdempotencyKey: strings.Repeat("ü", 127)},
	} {
		m.ID, m.Topic, m.Payload = fmt.Sprint("shared ", i), "orders", []byte("{}")
		m.Complete()
		other := m
		other.Payload = []byte("[]")
		s.handles(inbox.Processed, "go first", &m)
		s.says("duplicate", argsOf("go first", &m)...)
		s.says("conflict", argsOf("go first", &other)...)
		s.says("new", argsOf("sql first", &m)...)
		s.handles(inbox.Duplicate, "sql first", &m)
		s.handles(inbox.Conflict, "sql first", &other)
	}
}

// atOnce lets two transactions ask of one message: the second waits for the first.
func (s *inboxSQL) atOnce() {
	for _, tc := range []struct {
		id   string
		end  func(*sql.Tx) error
		want string
	}{{"committed", (*sql.Tx).Commit, "duplicate"}, {"rolled back", (*sql.Tx).Rollback, "new"}} {
		args := argsOf("billing", sampleMessage(tc.id))
		first := beginSQL(s.T, s.db)
		if got, err := s.ask(first, args...); got != "new" || err != nil {
			s.Fatalf("%s: %q, %v, want new", tc.id, got, err)
		}
		if s.waits == nil {
			if got, err := s.ask(beginSQL(s.T, s.db), args...); err == nil {
				s.Errorf("%s: the second one receives %q while the first is open", tc.id, got)
			}
			must(s.T, tc.end(first))
			s.says(tc.want, args...)
			continue
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.says(tc.want, args...)
		}()
		s.waits()
		must(s.T, tc.end(first))
		<-ended
	}
}

// atOnceWithGo lets the Go inbox and another program take one message at the same time: the second waits
// for the first, whichever that is.
func (s *inboxSQL) atOnceWithGo() {
	if s.waits == nil {
		return // there, one transaction writes at a time
	}
	m, ended := sampleMessage("go holds it"), make(chan struct{})
	outcome, err := s.store.ProcessOnce(s.Context(), inbox.RecordOf("billing", m), func(context.Context, *sql.Tx) error {
		go func() {
			defer close(ended)
			s.says("duplicate", argsOf("billing", m)...)
		}()
		s.waits()
		return nil
	})
	<-ended
	if outcome != inbox.Processed || err != nil {
		s.Errorf("ProcessOnce() = %v, %v, want that it is processed", outcome, err)
	}

	m, ended = sampleMessage("sql holds it"), make(chan struct{})
	first := beginSQL(s.T, s.db)
	if got, err := s.ask(first, argsOf("billing", m)...); got != "new" || err != nil {
		s.Fatalf("%q, %v, want new", got, err)
	}
	go func() {
		defer close(ended)
		handle := func(context.Context, *sql.Tx) error { s.Error("the message is handled twice"); return nil }
		outcome, err := s.store.ProcessOnce(s.Context(), inbox.RecordOf("billing", m), handle)
		for waybill.IsConflict(err) { // it waits for a second at a time
			outcome, err = s.store.ProcessOnce(s.Context(), inbox.RecordOf("billing", m), handle)
		}
		if outcome != inbox.Duplicate || err != nil {
			s.Errorf("ProcessOnce() = %v, %v, want a duplicate", outcome, err)
		}
	}()
	s.waits()
	must(s.T, first.Commit())
	<-ended
}

// aliases holds that versions of a type have one key, as [waybill.Message.Alias] reads them.
func (s *inboxSQL) aliases() {
	for i, typ := range []string{
		"order", "order@v2", "order@v1", "order@v0", "order@v02", "order@v007", "order@v00", "order@v", "order@v10", "@v2", "a@v2@v3", "a@v2@vx",
		"order@v+2", "order@v-2", "order@v++2", "order@V2", "order@v2 ", "order@v2\n", "order\n@v2", "é@v2", "@v", "v2", "2", "order2",
		"order@v9223372036854775807", "order@v9223372036854775808", "order@v1000000000000000000000", "order@v0000000000000000000000012",
	} {
		m := sampleMessage(fmt.Sprint("alias ", i))
		m.Type = typ
		s.says("new", argsOf("billing", m)...)
		s.handles(inbox.Duplicate, "billing", m)
	}
}

// limits holds that what is too long, or missing, is refused by its name, and what is just short enough is not.
func (s *inboxSQL) limits() {
	hash := strings.Repeat("0a", 32)
	a := strings.Repeat
	s.says("new", a("c", 200), a("i", 255), a("y", 255), a("s", 255), a("t", 64), a("k", 255), hash)
	for want, args := range map[string][]any{
		"consumer must have 1 to 200 bytes":             {a("c", 201), "i", "t", "", "", "", hash},
		"id must have 1 to 255 bytes":                   {"c", a("ü", 128), "t", "", "", "", hash},
		"type must have 1 to 255 bytes":                 {"c", "i", a("t", 70_000), "", "", "", hash},
		"source must have at most 255 bytes":            {"c", "i", "t", a("s", 256), "", "", hash},
		"tenant must have at most 64 bytes":             {"c", "i", "t", "", a("t", 65), "", hash},
		"idempotency_key must have at most 255 bytes":   {"c", "i", "t", "", "", a("k", 256), hash},
		"payload_hash must be 64 lower-case hex digits": {"c", "i", "t", "", "", "", strings.ToUpper(hash)},
	} {
		s.refuses(want, args...)
	}
	for i, field := range []string{"consumer", "id", "type"} {
		for _, missing := range []any{"", nil} {
			args := []any{"c", "i", "t", "", "", "", ""}
			args[i] = missing
			s.refuses(field+" must have 1 to ", args...)
		}
	}
	for _, bad := range []string{"0", hash[1:], hash + "0", "g" + hash[1:]} {
		s.refuses("payload_hash must be", "c", "i", "t", "", "", "", bad)
	}
}

func (s *inboxSQL) refuses(want string, args ...any) {
	s.Helper()
	tx := beginSQL(s.T, s.db)
	if got, err := s.ask(tx, args...); err == nil || !strings.Contains(err.Error(), want) {
		s.Errorf("%q, %v, want an error that says %q", got, err, want)
	}
	must(s.T, tx.Rollback())
}
