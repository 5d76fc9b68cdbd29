package cli

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/saga"
)

// TestSaga_Stores: an instance that is stuck is found, shown and resumed on databases as it is in
// memory, and the message by which it goes on waits for the relay.
func TestSaga_Stores(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]opener.StoreConfig{
		"PostgreSQL": {URL: postgresURL(), Schema: "cli-saga-" + waybill.NewID()[24:]},
		"SQLite":     {URL: "sqlite:" + filepath.Join(t.TempDir(), "shop.db"), Schema: "waybill", Create: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaveStuck(t, cfg)
			args := []string{"--store", cfg.URL, "--schema", cfg.Schema, "--by", "ann"}
			for _, s := range []struct {
				line string
				code int
				want []string
			}{
				{"saga list --status stuck", exitOK, []string{"order", "17", "warehouse: away"}},
				{"saga show order 17", exitOK, []string{"stuck", "31 bytes", "step-2", "reserve could not be undone"}},
				{"saga show order 17 --data", exitOK, []string{`"card": "4000-1234"`}},
				{"saga compensate order 17", exitFailed, []string{"it is not running"}},
				{"doctor", exitOK, []string{"1 instance of order stuck"}},
				{"saga resume order 17 --why back", exitOK, []string{"Resumed order 17"}},
				{"saga resume order 17", exitFailed, []string{"it is not stuck"}},
				{"saga show order 17", exitOK, []string{"compensating", "saga_resume by ann"}},
				{"saga list --status stuck", exitOK, []string{"No instance matches."}},
				{"outbox list --key 17", exitOK, []string{"orders", "Scheduled"}},
				{"dead audit", exitOK, []string{"saga_resume", "order 17", "back", "reveal"}},
				{"saga show order 18", exitFailed, []string{"there is no instance order 18"}},
			} {
				r := runProgram(t.Context(), nil, append(strings.Fields(s.line), args...)...)
				if r.code != s.code {
					t.Errorf("%s: exit code %d, want %d: %s", s.line, r.code, s.code, r.stderr)
				}
				for _, want := range s.want {
					if !strings.Contains(r.stdout+r.stderr, want) {
						t.Errorf("%s: the screen lacks %q:\n%s%s", s.line, want, r.stdout, r.stderr)
					}
				}
			}
		})
	}
}

// leaveStuck makes the tables of a store, with one instance that is stuck.
func leaveStuck(t *testing.T, cfg opener.StoreConfig) {
	t.Helper()
	db, store, err := opener.OpenSQL(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if opener.IsPostgres(cfg.URL) {
		t.Cleanup(func() { dropSchema(t, cfg) })
	}
	if _, err := store.Migrate(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	sagas, keeps := store.(saga.Store[*sql.Tx])
	if !keeps {
		t.Fatal("the store keeps no sagas")
	}
	in := &saga.Instance{
		ID: saga.ID{Tenant: waybill.DefaultTenant, Saga: "order", Key: "17"}, Definition: 1, Status: saga.Running, State: "reserve",
		Data: json.RawMessage(`{"card":"4000-1234","sum":12.5}`), Progress: saga.Progress{Topic: "orders", Turn: 1, Done: 1},
	}
	write := func(e saga.Entry) {
		e.Status, e.Definition, e.To = in.Status, in.Definition, in.State
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		stored, err := sagas.WriteSaga(t.Context(), tx, in, e)
		if err := errors.Join(err, tx.Commit()); err != nil || !stored {
			t.Fatalf("WriteSaga() = %v, %v", stored, err)
		}
	}
	write(saga.Entry{MessageID: "placed", MessageType: "order.placed"})
	in.Status, in.Error, in.Progress.Back = saga.Stuck, "warehouse: away", true
	write(saga.Entry{MessageID: "step-2", MessageType: "waybill.saga.step", From: "reserve", Note: "reserve could not be undone"})
}
