package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

// TestCommitAndRollback (AS-01): a commit leaves the business row and the message, a rollback or a panic neither.
//
//test:sessions
//test:pooled
func TestCommitAndRollback(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		order := func(id string) func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			return func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
				_, err := tx.Exec(ctx, "INSERT INTO "+w.table("orders")+" VALUES ($1)", id)
				rec.Record(waybill.Message{ID: id, Topic: "orders"})
				return err
			}
		}
		rows := func(id string) (orders, messages int) {
			return w.number(t, "SELECT count(*) FROM "+w.table("orders")+" WHERE id = $1", id), len(w.statuses(t, id))
		}
		if _, err := w.writer.InTx(t.Context(), order("committed")); err != nil {
			t.Fatal(err)
		}
		if o, m := rows("committed"); o != 1 || m != 1 {
			t.Errorf("after commit: %d business rows and %d messages, want 1 and 1", o, m)
		}

		refused := errors.New("refused")
		_, err := w.writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			return errors.Join(order("refused")(ctx, tx, rec), refused)
		})
		if !errors.Is(err, refused) {
			t.Errorf("InTx() = %v, want the function's error", err)
		}
		if o, m := rows("refused"); o != 0 || m != 0 {
			t.Errorf("after rollback: %d business rows and %d messages, want none", o, m)
		}

		func() {
			defer func() { _ = recover() }() // the panic is the story
			_, _ = w.writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
				if err := order("panicked")(ctx, tx, rec); err != nil {
					t.Error(err)
				}
				panic("boom")
			})
			t.Error("InTx swallowed a panic")
		}()
		if o, m := rows("panicked"); o != 0 || m != 0 {
			t.Errorf("after panic: %d business rows and %d messages, want none", o, m)
		}
	})
}

// TestSameIDTwice (AS-03): the same id twice, in one transaction or two: one row, the second call says so, and the
// transaction stays usable.
//
//test:sessions
//test:pooled
func TestSameIDTwice(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		msg := waybill.Message{ID: "same", Topic: "orders"}
		w.inTx(t, func(tx pgx.Tx) error {
			res, err := w.writer.Enqueue(t.Context(), tx, msg, waybill.Message{ID: "other", Topic: "orders"}, msg)
			if err != nil {
				return err
			}
			if want := []bool{true, true, false}; !slices.Equal(res.New, want) {
				t.Errorf("one call: New = %v, want %v", res.New, want)
			}
			res, err = w.writer.Enqueue(t.Context(), tx, msg)
			if err == nil && res.Duplicates() != 1 {
				t.Errorf("second call in one transaction: %d duplicates, want 1", res.Duplicates())
			}
			return err
		})
		w.inTx(t, func(tx pgx.Tx) error {
			res, err := w.writer.Enqueue(t.Context(), tx, msg)
			if err != nil {
				return err
			}
			if res.Duplicates() != 1 {
				t.Errorf("second transaction: %d duplicates, want 1", res.Duplicates())
			}
			_, err = tx.Exec(t.Context(), "INSERT INTO "+w.table("orders")+" VALUES ('still usable')")
			return err
		})
		if n := w.number(t, "SELECT count(*) FROM "+w.table("orders")); n != 1 {
			t.Errorf("the transaction was not usable after a duplicate: %d rows, want 1", n)
		}
		if s := w.statuses(t, "same"); !slices.Equal(s, []inspect.Status{inspect.Pending}) {
			t.Errorf("message is %v, want Pending once", s)
		}
	})
}

// TestSameIDLater says what a caller's id does at each later stage of its message.
//
//test:sessions
func TestSameIDLater(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		unique, err := outbox.NewWriter(w.store, outbox.Config{Source: "shop", Unique: true, Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		again := func(w *outbox.Writer[pgx.Tx], id string) bool {
			t.Helper()
			res, err := w.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, rec *outbox.Recorder) error {
				rec.Record(waybill.Message{ID: id, Topic: "orders"})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return res.New[0]
		}
		for _, id := range []string{"waits", "dies", "goes"} {
			again(unique, "unique "+id)
			again(w.writer, id)
		}
		pub := &recorder{fail: func(m contract.Outgoing) error {
			switch {
			case strings.HasSuffix(m.ID, "waits"):
				return errors.New("not now")
			case strings.HasSuffix(m.ID, "dies"):
				return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
			}
			return nil
		}}
		_, stop := w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}})
		for _, prefix := range []string{"", "unique "} {
			w.waitStatus(t, prefix+"waits", inspect.Waiting)
			w.waitStatus(t, prefix+"dies", inspect.Dead)
			w.waitStatus(t, prefix+"goes", inspect.Published)
		}
		stop()
		for id, wantNew := range map[string]bool{"waits": false, "dies": true, "goes": true} {
			if got := again(w.writer, id); got != wantNew {
				t.Errorf("%s enqueued again: new = %v, want %v", id, got, wantNew)
			}
			if again(unique, "unique "+id) {
				t.Errorf("%s enqueued again with Unique: new, want a duplicate", id)
			}
		}
		_, stop = w.startRelay(t, &recorder{}, relay.Config{Retention: relay.KeepNothing})
		eventually(t, "the second goes is published and not kept", func() bool {
			return slices.Equal(w.statuses(t, "goes"), []inspect.Status{inspect.Published})
		})
		stop()
		if !again(w.writer, "goes") {
			t.Error("with retention 0 an id is new again after publication, but was a duplicate")
		}
	})
}

// order is an aggregate as domain code has them.
type order struct{ events []waybill.Message }

func (o *order) Events() []waybill.Message { return o.events }
func (o *order) ClearEvents()              { o.events = nil }

// TestEventsSurviveAFailedCommit (AS-04): events of an aggregate are collected in order, and written by the next try
// after a commit that failed.
//
//test:sessions
//test:pooled
func TestEventsSurviveAFailedCommit(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		// A constraint that is checked at the commit makes the commit itself fail.
		w.exec(t, "CREATE TABLE "+w.table("lines")+" (order_id text REFERENCES "+w.table("orders")+" DEFERRABLE INITIALLY DEFERRED)")
		agg := &order{events: []waybill.Message{{ID: "placed", Topic: "orders", Key: "o1"}}}
		unit := func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			rec.Record(waybill.Message{ID: "first", Topic: "orders", Key: "o1"})
			rec.Collect(agg)
			rec.Record(waybill.Message{ID: "last", Topic: "orders", Key: "o1"})
			_, err := tx.Exec(ctx, "INSERT INTO "+w.table("lines")+" VALUES ('o1')")
			return err
		}
		if _, err := w.writer.InTx(t.Context(), unit); err == nil {
			t.Fatal("the commit did not fail")
		}
		if len(agg.events) != 1 {
			t.Fatalf("the aggregate has %d events after a failed commit, want 1", len(agg.events))
		}
		w.exec(t, "INSERT INTO "+w.table("orders")+" VALUES ('o1')")
		if _, err := w.writer.InTx(t.Context(), unit); err != nil {
			t.Fatal(err)
		}
		if len(agg.events) != 0 {
			t.Errorf("the aggregate has %d events after the commit, want none", len(agg.events))
		}
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		eventually(t, "three messages are published", func() bool { return len(pub.ids()) == 3 })
		if got, want := pub.ids(), []string{"first", "placed", "last"}; !slices.Equal(got, want) {
			t.Errorf("published %v, want %v", got, want)
		}
	})
}

// TestConflictRepeatsTheTransaction clashes two transactions for real.
//
//test:sessions
func TestConflictRepeatsTheTransaction(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.exec(t, "INSERT INTO "+w.table("orders")+" VALUES ('a'), ('b')")
	lock := func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "SELECT 1 FROM "+w.table("orders")+" WHERE id = $1 FOR UPDATE", id)
		return err
	}
	haveFirst := make(chan struct{}, 2)
	both := make(chan struct{})
	go func() { <-haveFirst; <-haveFirst; close(both) }()
	clash := func(first, second string) error {
		tries := 0
		_, err := w.writer.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, rec *outbox.Recorder) error {
			rec.Record(waybill.Message{ID: "by " + first, Topic: "orders"})
			if err := lock(ctx, tx, first); err != nil {
				return err
			}
			if tries++; tries == 1 {
				haveFirst <- struct{}{}
				<-both
			}
			return lock(ctx, tx, second)
		})
		return err
	}
	errs := make(chan error, 2)
	go func() { errs <- clash("a", "b") }()
	go func() { errs <- clash("b", "a") }()
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("InTx() = %v, want the deadlock repeated away", err)
		}
	}
	w.everyIDOnce(t, 2)
}

// TestInvalidMessagesAreRefused (AS-06): a payload, type or header that is too large or not allowed is refused by an
// error of its own, before anything is stored.
//
//test:sessions
//test:pooled
func TestInvalidMessagesAreRefused(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	long := strings.Repeat("x", 70_000)
	for field, msg := range map[string]waybill.Message{
		"Payload":      {Topic: "t", Payload: make([]byte, waybill.MaxPayloadLen+1)},
		"Type":         {Topic: "t", Type: long},
		"Headers[h]":   {Topic: "t", Headers: map[string]string{"h": long}},
		"Headers":      {Topic: "t", Headers: map[string]string{"UPPER": "x"}},
		"Headers[ce-]": {Topic: "t", Headers: map[string]string{"ce-": "x"}},
		"ID":           {Topic: "t", ID: "line\nbreak"},
		"Key":          {Topic: "t", Key: "\xff"},
		"Topic":        {},
		"To":           {Topic: "t", To: "u"},
		"ExpiresAt":    {Topic: "t", DeliverAt: time.Unix(200, 0), ExpiresAt: time.Unix(100, 0)},
	} {
		w.inTx(t, func(tx pgx.Tx) error {
			_, err := w.writer.Enqueue(t.Context(), tx, waybill.Message{Topic: "fine"}, msg)
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("Enqueue(bad %s) = %v, want an InvalidError that names it", field, err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("bad %s: the error quotes the value", field)
			}
			return nil
		})
	}
	if n := w.number(t, "SELECT count(*) FROM "+w.table("messages")); n != 0 {
		t.Errorf("%d messages stored, want none, not even the valid neighbours", n)
	}
}

// TestLateCommitIsPublished (AS-13): a transaction that commits late is published anyway.
//
//test:sessions
//test:pooled
func TestLateCommitIsPublished(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		late, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.writer.Enqueue(t.Context(), late, waybill.Message{ID: "late", Topic: "orders", Key: "late"}); err != nil {
			t.Fatal(err)
		}
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{Retention: relay.KeepNothing})
		// Far more than the low-water mark's lag, in the lane of the late one too.
		for batch := range 30 {
			msgs := numbered(fmt.Sprintf("b%d-", batch), "orders", 200)
			for i := range msgs {
				msgs[i].Key = fmt.Sprintf("k%d", i)
			}
			w.enqueue(t, msgs...)
		}
		eventually(t, "the others are published", func() bool { return len(pub.ids()) == 6000 })
		if err := late.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the late one is published", func() bool { return pub.count("late") == 1 })
		eventually(t, "everything is settled and gone", func() bool {
			return w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE id <> 'held'") == 0
		})
		if n := len(pub.ids()); n != 6001 {
			t.Errorf("%d messages were published, want 6001", n)
		}
	})
}

// TestOpenTransactionOvertakesNothing holds a transaction open that has enqueued, while
// others of other keys, and then one of the same key, enqueue and commit.
//
//test:sessions
func TestOpenTransactionOvertakesNothing(t *testing.T) {
	inSessions(t, func(t *testing.T, w *world) {
		w.exec(t, "INSERT INTO "+w.table("orders")+" VALUES ('a')")
		withLock := func(tx pgx.Tx, msg waybill.Message) error {
			if _, err := tx.Exec(t.Context(), "SELECT 1 FROM "+w.table("orders")+" WHERE id = 'a' FOR UPDATE"); err != nil {
				return err
			}
			_, err := w.writer.Enqueue(t.Context(), tx, msg)
			return err
		}
		first, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := withLock(first, waybill.Message{ID: "a1", Topic: "orders", Key: "a"}); err != nil {
			t.Fatal(err)
		}
		pub := &recorder{}
		w.startRelay(t, pub, relay.Config{})
		second := make(chan struct{})
		go func() { // waits for the lock of the first
			defer close(second)
			w.inTx(t, func(tx pgx.Tx) error { return withLock(tx, waybill.Message{ID: "a2", Topic: "orders", Key: "a"}) })
		}()
		others := numbered("other", "orders", 500)
		for i := range others {
			others[i].Key = fmt.Sprintf("k%d", i)
		}
		w.enqueue(t, others...)
		eventually(t, "the others are published meanwhile", func() bool { return len(pub.ids()) == 500 })
		if err := first.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-second
		eventually(t, "both are published", func() bool { return len(pub.ids()) == 502 })
		if got := pub.ids()[500:]; !slices.Equal(got, []string{"a1", "a2"}) {
			t.Errorf("published %v, want a1 before a2", got)
		}
	})
}
