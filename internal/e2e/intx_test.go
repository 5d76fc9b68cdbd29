package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// unit is a business transaction that stores the order id and tells of it in a message.
func (w *world) unit(id, topic string) func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
	return func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(waybill.Message{ID: id, Topic: topic})
		_, err := tx.Exec(ctx, "INSERT INTO "+w.table("orders")+" VALUES ($1)", id)
		return err
	}
}

// wantRows counts orders and messages, and connections that were not given back.
func (w *world) wantRows(t *testing.T, when string, orders, messages int) {
	t.Helper()
	if n := w.number(t, "SELECT count(*) FROM "+w.table("orders")); n != orders {
		t.Errorf("%s: %d orders, want %d", when, n, orders)
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox")); n != messages {
		t.Errorf("%s: %d messages, want %d", when, n, messages)
	}
	if n := w.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%s: %d connections are still taken", when, n)
	}
}

// TestCommitTravelsWithTheEnqueue: what can go wrong when both are sent at once. In plain
// sessions only: one that stays open would keep tables as they are, and a connection.
func TestCommitTravelsWithTheEnqueue(t *testing.T) {
	t.Parallel()
	t.Run("the enqueue is refused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, sessions[0])
		w.exec(t, "ALTER TABLE "+w.table("outbox")+" ADD CHECK (topic <> 'refused')")
		var refused *pgconn.PgError
		if _, err := w.writer.InTx(t.Context(), w.unit("o", "refused")); !errors.As(err, &refused) || refused.Code != "23514" {
			t.Errorf("InTx() = %v, want the check violation", err)
		}
		w.wantRows(t, "after the refusal", 0, 0)
	})
	t.Run("the commit is refused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, sessions[0])
		w.exec(t, "ALTER TABLE "+w.table("orders")+" ADD COLUMN parent text DEFAULT 'none' REFERENCES "+w.table("orders")+" DEFERRABLE INITIALLY DEFERRED")
		connections := w.pool.Stat().NewConnsCount()
		var refused *pgconn.PgError
		if _, err := w.writer.InTx(t.Context(), w.unit("o", "orders")); !errors.As(err, &refused) || refused.Code != "23503" {
			t.Errorf("InTx() = %v, want the foreign key violation", err)
		}
		w.wantRows(t, "after the refusal", 0, 0)
		if n := w.pool.Stat().NewConnsCount() - connections; n != 0 {
			t.Errorf("%d connections had to be replaced", n)
		}
	})
	t.Run("the transaction had failed before", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, sessions[0])
		for _, record := range []bool{true, false} {
			_, err := w.writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
				if _, err := tx.Exec(ctx, "INSERT INTO "+w.table("orders")+" VALUES ('o')"); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, "SELECT 1/0"); err == nil {
					t.Error("1/0 has a value")
				}
				if record {
					rec.Record(waybill.Message{Topic: "orders"})
				}
				return nil
			})
			if err == nil {
				t.Errorf("InTx() = nil (with a message: %v), want an error", record)
			}
		}
		w.wantRows(t, "after a failed statement", 0, 0)
	})
	t.Run("the id is there already", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, sessions[0])
		w.enqueue(t, waybill.Message{ID: "o", Topic: "orders"})
		res, err := w.writer.InTx(t.Context(), w.unit("o", "orders"))
		if err != nil || len(res.New) != 1 || res.New[0] {
			t.Errorf("InTx() = %v, %v; want a message that is not new", res, err)
		}
		w.wantRows(t, "with the id there already", 1, 1)
	})
	t.Run("the answer is lost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, sessions[0])
		proxied, proxy := w.throughProxy(t)
		writer, err := outbox.NewWriter(proxied, outbox.Config{Source: "shop", Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.InTx(t.Context(), w.unit("before", "orders")); err != nil { // prepares the statements
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
				err := w.unit("o", "orders")(ctx, tx, rec)
				proxy.StallReplies(true)
				return err
			})
			failed <- err
		}()
		eventually(t, "the server has committed", func() bool { return w.number(t, "SELECT count(*) FROM "+w.table("outbox")) == 2 })
		proxy.Cut()
		if err := <-failed; !waybill.IsUnavailable(err) {
			t.Errorf("InTx() = %v, want unavailable", err)
		}
	})
	t.Run("the transaction is kept and used", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, sessions[0])
		var kept pgx.Tx
		if _, err := w.writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			kept = tx
			return w.unit("o", "orders")(ctx, tx, rec)
		}); err != nil {
			t.Fatal(err)
		}
		var n int
		_, execErr := kept.Exec(t.Context(), "SELECT 1")
		_, queryErr := kept.Query(t.Context(), "SELECT 1")
		_, beginErr := kept.Begin(t.Context())
		batch := &pgx.Batch{}
		batch.Queue("SELECT 1")
		for what, err := range map[string]error{
			"Exec": execErr, "Query": queryErr, "QueryRow": kept.QueryRow(t.Context(), "SELECT 1").Scan(&n), "Begin": beginErr,
			"SendBatch": kept.SendBatch(t.Context(), batch).Close(), "Commit": kept.Commit(t.Context()), "Rollback": kept.Rollback(t.Context()),
		} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s after the end = %v, want ErrTxClosed", what, err)
			}
		}
	})
}

// TestQueueEnqueue puts the enqueue into the caller's own batch.
//
//test:sessions
func TestQueueEnqueue(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		order := "INSERT INTO " + w.table("orders") + " VALUES ($1)"
		send := func(id string, msgs ...waybill.Message) (results []outbox.Result, _ error) {
			t.Helper()
			prepared, err := w.writer.Prepare(t.Context(), msgs...)
			if err != nil {
				t.Fatal(err)
			}
			batch := &pgx.Batch{}
			pgstore.QueueEnqueue(batch, w.store, prepared, func(r outbox.Result) { results = append(results, r) })
			batch.Queue(order, id)
			err = w.pool.SendBatch(t.Context(), batch).Close()
			return results, err
		}
		unanswered, err := w.writer.Prepare(t.Context(), waybill.Message{Topic: "unanswered"})
		if err != nil {
			t.Fatal(err)
		}
		for _, duplicates := range []int{0, 1} { // the id is one that the writer has made, once
			batch := &pgx.Batch{}
			pgstore.QueueEnqueue(batch, w.store, unanswered, func(r outbox.Result) {
				if r.Duplicates() != duplicates {
					t.Errorf("duplicates = %d, want %d", r.Duplicates(), duplicates)
				}
			})
			if err := w.pool.SendBatch(t.Context(), batch).Close(); err != nil {
				t.Errorf("a batch after a commit that had no answer: %v", err)
			}
		}
		count := func(want int) {
			t.Helper()
			if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox")+" WHERE topic = 'orders'"); n != want {
				t.Errorf("%d messages are stored, want %d", n, want)
			}
		}
		one := waybill.Message{ID: "a", Topic: "orders"}
		if r, err := send("1", one); err != nil || len(r) != 1 || !r[0].New[0] || r[0].IDs[0] != "a" {
			t.Errorf("one message: %v, %v; want it new", r, err)
		}
		if r, err := send("2", one); err != nil || len(r) != 1 || r[0].Duplicates() != 1 {
			t.Errorf("the same again: %v, %v; want it told apart", r, err)
		}
		if r, err := send("3", append(numbered("b", "orders", 3), one)...); err != nil || len(r) != 1 || r[0].Duplicates() != 1 || r[0].New[3] {
			t.Errorf("three and the same again: %v, %v; want three new", r, err)
		}
		if r, err := send("4"); err != nil || len(r) != 0 {
			t.Errorf("no message: %v, %v; want nothing told", r, err)
		}
		count(4)
		if _, err := send("4", waybill.Message{Topic: "orders"}); err == nil {
			t.Error("an order that is there already is accepted")
		}
		count(4)
		if _, err := w.writer.Prepare(t.Context(), waybill.Message{}); err == nil {
			t.Error("a message without a topic is accepted")
		}
	})
}
