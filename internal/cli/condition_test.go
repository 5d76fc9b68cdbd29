package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// TestDoctor_OpenTransactions looks at real sessions. What a session has enqueued is a
// secret; that it has enqueued is not.
func TestDoctor_OpenTransactions(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	db, sqlStore, err := opener.OpenSQL(t.Context(), opener.StoreConfig{URL: url, Schema: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := sqlStore.Migrate(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	store, err := opener.OpenStore(t.Context(), opener.StoreConfig{URL: url, Schema: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	check := func(p patience) []finding {
		t.Helper()
		all := checkCondition(t.Context(), store.(conditioned), p)
		return all[3:] // behind relays, archive and vacuum
	}
	if got := check(patience{transactions: 1 << 30}); len(got) != 1 || got[0].Severity != ops.OK {
		t.Fatalf("with nobody else there: %+v, want that none is open for long", got)
	}

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`SET LOCAL application_name = 'shop'`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`INSERT INTO s.outbox (topic, payload) VALUES ('orders', 'S3CR3T')`); err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := tx.QueryRow(`SELECT pg_backend_pid() /* S3CR3T */`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	got := check(patience{open: time.Hour, transactions: 1 << 30})
	if len(got) != 1 || got[0].Severity != ops.Warning {
		t.Fatalf("an open transaction that has enqueued: %+v, want one warning", got)
	}
	matchText(t, "found", got[0].Found,
		fmt.Sprintf("session %d (shop, …, idle in transaction) is open for …, has enqueued messages, keeps the dead rows of the last … transaction…: SELECT pg_backend_pid()…", pid))
	matchText(t, "advice", got[0].Advice, fmt.Sprintf("let its application end it, or: SELECT pg_terminate_backend(%d)", pid))
	if h := got[0].Holder; h == nil || h.PID != pid || !h.Enqueued || !h.HoldsRows || h.Query != "SELECT pg_backend_pid()…" {
		t.Errorf("for programs: %+v", h)
	}
	for _, p := range []patience{{open: time.Hour, enqueued: time.Hour, transactions: 1 << 30}, usualPatience} {
		if got := check(p); len(got) != 1 || got[0].Severity != ops.OK {
			t.Errorf("a patience of %+v: %+v, want nothing reported yet", p, got)
		}
	}
}

func TestCheckHolders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		holder pgadmin.Holder
		want   string // "" if it is not reported
	}{
		{pgadmin.Holder{Kind: pgadmin.HolderSession, PID: 7, Name: "app", Age: 59 * time.Second, HoldsRows: true}, ""},
		{pgadmin.Holder{Kind: pgadmin.HolderSession, PID: 7, Age: time.Minute, State: "idle in transaction"},
			"session 7 (idle in transaction) is open for 1m0s → let its application end it, or: SELECT pg_terminate_backend(7)"},
		{pgadmin.Holder{Kind: pgadmin.HolderSession, PID: 7, Name: "app", User: "u", State: "active", Age: 2 * time.Hour, HoldsRows: true, Transactions: 1, Query: "SELECT …"},
			"session 7 (app, u, active) is open for 2h0m, keeps the dead rows of the last 1 transaction: SELECT … → let its application end it, or: SELECT pg_terminate_backend(7)"},
		{pgadmin.Holder{Kind: pgadmin.HolderPrepared, Name: "gid", User: "u", Age: 10 * time.Second, HoldsRows: true, Transactions: 5, Enqueued: true},
			"prepared transaction (gid, u) is open for 10s, has enqueued messages, keeps the dead rows of the last 5 transactions → let its coordinator end it, or: ROLLBACK PREPARED"},
		{pgadmin.Holder{Kind: pgadmin.HolderSlot, Name: "old", State: "inactive", HoldsRows: true, Transactions: 200_000},
			"replication slot (old, inactive) keeps the dead rows of the last 200,000 transactions → if nobody reads it any more: SELECT pg_drop_replication_slot"},
		{pgadmin.Holder{Kind: pgadmin.HolderSlot, Name: "cdc", State: "active", HoldsRows: true, Transactions: 200_000, CatalogOnly: true},
			"replication slot (cdc, active) keeps the dead rows of the server's own tables of the last 200,000 transactions → if nobody reads it any more: SELECT pg_drop_replication_slot"},
		{pgadmin.Holder{Kind: pgadmin.HolderStandby, PID: 8, Name: "walreceiver", State: "streaming", HoldsRows: true, Transactions: 200_000},
			"standby 8 (walreceiver, streaming) keeps the dead rows of the last 200,000 transactions → look for long queries on it"},
	} {
		found := checkHolders([]pgadmin.Holder{tt.holder}, usualPatience)
		if tt.want == "" {
			if found[0].Severity != ops.OK {
				t.Errorf("%+v is reported: %+v", tt.holder, found)
			}
			continue
		}
		if got := found[0].Found + " → " + found[0].Advice; got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestCheckTables_Limits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		check func(pgadmin.Condition) finding
		c     pgadmin.Condition
		want  ops.Severity
	}{
		{"nobody", checkLanes, pgadmin.Condition{Lanes: 64, FreeLanes: 64}, ops.Warning},
		{"lanes without owner", checkLanes, pgadmin.Condition{Relays: 2, Lanes: 64, FreeLanes: 1}, ops.Warning},
		{"every lane has one", checkLanes, pgadmin.Condition{Relays: 2, Lanes: 64}, ops.OK},
		{"shortly after midnight", checkDays, pgadmin.Condition{DaysAhead: 9, DaysReady: 8}, ops.OK},
		{"for two days nobody made room", checkDays, pgadmin.Condition{DaysAhead: 9, DaysReady: 7}, ops.Warning},
		{"dead rows", checkVacuum, pgadmin.Condition{DeadRows: 100_000}, ops.OK},
		{"many dead rows", checkVacuum, pgadmin.Condition{DeadRows: 100_001}, ops.Warning},
	} {
		if got := tt.check(tt.c); got.Severity != tt.want || (got.Advice == "") != (tt.want == ops.OK) {
			t.Errorf("%s: %+v, want %s, with advice unless it is ok", tt.name, got, tt.want)
		}
	}
}
