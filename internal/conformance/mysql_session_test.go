package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// TestMySQLStore_SessionKilled: while the server answers, a handler whose session ends has failed
// by itself, once, in a batch, and as a requeued letter's.
func TestMySQLStore_SessionKilled(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	kill := func(ctx context.Context, tx *sql.Tx) error {
		var id int64
		must(t, tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
		must(t, s.exec(fmt.Sprintf("KILL %d", id)))
		_, err := tx.ExecContext(ctx, "SELECT 1")
		return err
	}
	handlers := map[string]func(ctx context.Context, tx *sql.Tx) error{
		"returned": kill,
		"ignored":  func(ctx context.Context, tx *sql.Tx) error { _ = kill(ctx, tx); return nil },
	}
	for name, handle := range handlers {
		_, once := s.ProcessOnce(t.Context(), recordOf("a"), handle)
		_, batch := s.ProcessBatch(t.Context(), []inbox.Record{recordOf("a"), recordOf("b")}, func(ctx context.Context, tx *sql.Tx, _ []int) error {
			return handle(ctx, tx)
		})
		for call, err := range map[string]error{"ProcessOnce": once, "ProcessBatch": batch} {
			if !waybill.IsTransient(err) {
				t.Errorf("%s: %s() = %v of kind %v, want a transient error", name, call, err, waybill.KindOf(err))
			}
		}
	}
	never := errors.New("never")
	_, err := s.ProcessOnce(t.Context(), recordOf("a"), func(ctx context.Context, tx *sql.Tx) error {
		_ = kill(ctx, tx)
		return waybill.PermanentError(waybill.ReasonRejected, never)
	})
	if !waybill.IsPermanent(err) || !errors.Is(err, never) {
		t.Errorf("ProcessOnce() = %v, want the handler's permanent error", err)
	}
}
