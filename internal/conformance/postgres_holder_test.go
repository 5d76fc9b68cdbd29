package conformance

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// TestHolders shows each kind on a server of its own, because each would hold up the vacuum
// of the one that tests share.
func TestHolders(t *testing.T) {
	t.Parallel()
	h := newHolders(t)
	h.want("nobody else is there", nil)
	for _, tt := range []struct {
		name  string
		begin func(t *testing.T) (end func())
		want  pgadmin.Holder // without PID, Age and Transactions
	}{
		{"an open transaction that has enqueued", func(t *testing.T) func() {
			return h.session(t, "", `INSERT INTO waybill.outbox (topic, payload) VALUES ('t', 'S3CR3T')`)
		}, pgadmin.Holder{Kind: pgadmin.HolderSession, State: "idle in transaction", HoldsRows: true, Enqueued: true, Query: "INSERT INTO waybill.outbox (topic, payload) VALUES (…"}},
		{"an open snapshot", func(t *testing.T) func() {
			return h.session(t, "ISOLATION LEVEL REPEATABLE READ", `SELECT count(*) FROM waybill.outbox`)
		}, pgadmin.Holder{Kind: pgadmin.HolderSession, State: "idle in transaction", HoldsRows: true, Query: "SELECT count(*) FROM waybill.outbox"}},
		{"an open transaction that holds nothing", func(t *testing.T) func() {
			return h.session(t, "", `SET LOCAL application_name TO a_secret_name`)
		}, pgadmin.Holder{Kind: pgadmin.HolderSession, Name: "a_secret_name", State: "idle in transaction", Query: "SET…"}},
		{"a prepared transaction", h.prepared,
			pgadmin.Holder{Kind: pgadmin.HolderPrepared, Name: "gid", HoldsRows: true, Enqueued: true}},
		{"a logical slot", h.slot,
			pgadmin.Holder{Kind: pgadmin.HolderSlot, Name: "cdc", State: "inactive", HoldsRows: true, CatalogOnly: true}},
		{"a standby", h.standby,
			pgadmin.Holder{Kind: pgadmin.HolderStandby, Name: "second", State: "streaming", HoldsRows: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Not parallel: each would see the others.
			end := tt.begin(t)
			h.want(tt.name, &tt.want)
			end()
			h.want(tt.name+" has ended", nil)
		})
	}
}

// holders is a database of its own with a store in it.
type holders struct {
	*testing.T
	url   string
	pool  *pgxpool.Pool
	store *pgstore.Store[pgx.Tx]
}

func newHolders(t *testing.T) *holders {
	t.Helper()
	h := &holders{T: t, url: ownserver.Postgres(t, "max_prepared_transactions=2", "wal_level=logical", "autovacuum=off")}
	pool, err := pgxpool.New(context.Background(), h.url)
	must(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool, pgstore.Config{})
	must(t, err)
	_, err = store.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience})
	must(t, err)
	h.pool, h.store = pool, store
	return h
}

// want waits until the only holder is the one wanted, or there is none if it is nil.
func (h *holders) want(when string, want *pgadmin.Holder) {
	h.Helper()
	var got []pgadmin.Holder
	waitFor(h.T, when, func() bool {
		var err error
		got, err = h.store.Admin().Holders(context.Background(), 0, 0)
		must(h.T, err)
		return (want == nil) == (len(got) == 0)
	})
	if want == nil {
		return
	}
	if later, err := h.store.Admin().Holders(context.Background(), time.Hour, 1<<30); err != nil || len(later) > 0 {
		h.Errorf("%s: not there for an hour, and yet reported: %+v, %v", when, later, err)
	}
	g := got[0]
	g.User, g.PID, g.Age, g.Transactions = "", 0, 0, 0
	if len(got) != 1 || g != *want {
		h.Errorf("%s: %+v, want %+v", when, got, *want)
	}
	hasPID := want.Kind == pgadmin.HolderSession || want.Kind == pgadmin.HolderStandby
	if hasPID != (got[0].PID != 0) {
		h.Errorf("%s: pid %d", when, got[0].PID)
	}
	if strings.Contains(got[0].Query, "S3CR3T") {
		h.Errorf("%s: the query %q shows a value", when, got[0].Query)
	}
}

func (h *holders) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), h.url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// session opens a transaction that has run a statement and stays open.
func (h *holders) session(t *testing.T, mode, stmt string) (end func()) {
	t.Helper()
	conn := h.connect(t)
	_, err := conn.Exec(t.Context(), "BEGIN "+mode)
	must(t, err)
	_, err = conn.Exec(t.Context(), stmt)
	must(t, err)
	return func() { must(t, conn.Close(context.Background())) }
}

func (h *holders) prepared(t *testing.T) (end func()) {
	t.Helper()
	conn := h.connect(t)
	for _, stmt := range []string{"BEGIN", "INSERT INTO waybill.outbox (topic) VALUES ('t')", "PREPARE TRANSACTION 'gid'"} {
		_, err := conn.Exec(t.Context(), stmt)
		must(t, err)
	}
	return func() {
		_, err := conn.Exec(context.Background(), "ROLLBACK PREPARED 'gid'")
		must(t, err)
		must(t, conn.Close(context.Background()))
	}
}

func (h *holders) slot(t *testing.T) (end func()) {
	t.Helper()
	_, err := h.pool.Exec(t.Context(), "SELECT pg_create_logical_replication_slot('cdc', 'pgoutput')")
	must(t, err)
	return func() {
		_, err := h.pool.Exec(context.Background(), "SELECT pg_drop_replication_slot('cdc')")
		must(t, err)
	}
}

// standby plays a standby that feeds back its oldest snapshot, as hot_standby_feedback does.
func (h *holders) standby(t *testing.T) (end func()) {
	t.Helper()
	var xmin uint32
	var position string
	row := h.pool.QueryRow(t.Context(), "SELECT txid_current()::int8 % 4294967296, pg_current_wal_lsn()::text")
	must(t, row.Scan(&xmin, &position))
	conn, err := pgconn.Connect(context.Background(), h.url+"&replication=true&application_name=second")
	must(t, err)
	front := conn.Frontend()
	front.Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + position})
	must(t, front.Flush())
	if msg, err := front.Receive(); err != nil {
		t.Fatalf("START_REPLICATION: %T, %v", msg, err)
	}
	feedback := make([]byte, 25) // time, xmin and its epoch, xmin of the catalogs and its epoch
	feedback[0] = 'h'
	binary.BigEndian.PutUint32(feedback[9:], xmin)
	front.Send(&pgproto3.CopyData{Data: feedback})
	must(t, front.Flush())
	return func() { _ = conn.Close(context.Background()) } // in the middle of replication
}
