package waybilltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

type invoice struct {
	Order string `json:"order"`
}

var (
	invoiced = waybill.NewEventType[invoice]("invoice.created", 1)
	orders   = consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	order    = waybill.Message{ID: "o-17", Topic: "orders", Subject: "o-17"}
)

// bill adds an invoice and publishes it.
func bill(k *waybilltest.Kit) handler {
	return func(ctx context.Context, tx *memstore.Tx, m *waybill.Message) error {
		addInvoice(tx)
		event, err := invoiced.New("invoices", invoice{Order: m.Subject})
		if err != nil {
			return err
		}
		_, err = k.Outbox().Enqueue(ctx, tx, event)
		return err
	}
}

func TestKit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		k.Consume(orders, bill(k), consumer.Config{})
		k.Enqueue(order)
		k.Redeliver("o-17")
		wantInvoices(t, k, "o-17")
		if m := k.Messages("invoices"); len(m) != 1 || m[0].CausationID != "o-17" {
			t.Errorf("Messages() = %+v, want one that o-17 has caused", m)
		}
		if got := k.Messages("elsewhere"); len(got) != 0 {
			t.Errorf("Messages() of an unused topic = %v, want none", got)
		}
	})
}

// What the test commits in transactions of its own is published too.
func TestKit_Outbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		tx, err := k.Store.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Outbox().Enqueue(t.Context(), tx, order); err != nil {
			t.Fatal(err)
		}
		tx.Commit()
		if got := k.Messages("orders"); len(got) != 1 || got[0].ID != "o-17" {
			t.Errorf("Messages() = %v, want o-17", got)
		}
	})
}

// A crash after any number of steps leaves one invoice, and one message about it.
func TestKit_CrashAfter(t *testing.T) {
	t.Parallel()
	for n := range 6 { // record, set, enqueue, commit, answer, acknowledge
		t.Run(fmt.Sprint(n, " steps"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := waybilltest.New(t)
				runs := 0
				k.Consume(orders, func(ctx context.Context, tx *memstore.Tx, m *waybill.Message) error {
					runs++
					return bill(k)(ctx, tx, m)
				}, consumer.Config{})
				k.CrashAfter(n)
				k.Enqueue(order)
				wantInvoices(t, k, "o-17")
				if want := [...]int{1, 2, 2, 2, 1, 1}[n]; runs != want {
					t.Errorf("the handler ran %d times, want %d", runs, want)
				}
				if a, err := k.Store.FailedAttempts(t.Context(), inbox.KeyOf("billing", &order)); a.Count != 0 || err != nil {
					t.Errorf("FailedAttempts() = %+v, %v; want none: a crash is not counted", a, err)
				}
			})
		})
	}
}

// An effect outside of the transaction happens twice.
func TestKit_CrashShowsEffectOutside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		charges := 0
		k.Consume(orders, func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			if err := k.Step("charge the card"); err != nil {
				return err
			}
			charges++
			addInvoice(tx)
			return nil
		}, consumer.Config{})
		k.CrashAfter(2)
		k.Enqueue(order)
		if charges != 2 || k.Store.Value("invoices") != 1 {
			t.Errorf("there are %d charges and %v invoices, want 2 and 1", charges, k.Store.Value("invoices"))
		}
	})
}

// A process that has crashed does nothing any more, whatever its handler makes of the error.
func TestKit_CrashEndsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		charges := 0
		k.Consume(orders, func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			if k.Step("charge the card") == nil {
				charges++
			}
			addInvoice(tx)
			return nil
		}, consumer.Config{})
		k.CrashAfter(1)
		k.Enqueue(order)
		if charges != 1 || k.Store.Value("invoices") != 1 {
			t.Errorf("there are %d charges and %v invoices, want one each", charges, k.Store.Value("invoices"))
		}
	})
}

// What a message does that ends its process again and again is seen without a process.
func TestKit_CrashAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		k.Consume(orders, func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			k.CrashAfter(0)
			addInvoice(tx)
			return nil
		}, consumer.Config{})
		k.Enqueue(order)
		letters := k.DeadLetters()
		if len(letters) != 1 || letters[0].Reason != waybill.ReasonPoison {
			t.Errorf("DeadLetters() = %+v, want one, poison", letters)
		}
	})
}

// Retries and scheduled messages come due when the test says so.
func TestKit_Advance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		down := true
		k.Consume(orders, func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			if down {
				return errors.New("the bank is closed")
			}
			addInvoice(tx)
			return nil
		}, consumer.Config{Retry: waybill.RetryPolicy{BaseDelay: time.Minute, MaxDelay: time.Minute}})
		later := order
		const wait = 24*time.Hour + 30*time.Second // between two polls of the relay
		later.DeliverAt = time.Now().Add(wait)
		k.Enqueue(later)
		if got := k.Messages("orders"); len(got) != 0 {
			t.Fatalf("Messages() = %v before the time, want none", got)
		}
		k.Advance(wait)
		if got := k.Messages("orders"); len(got) != 1 {
			t.Fatalf("Messages() = %v at the time, want one", got)
		}
		down = false
		if got := k.Store.Value("invoices"); got != nil {
			t.Fatalf("there are %v invoices before the retry, want none", got)
		}
		k.Advance(2 * time.Minute)
		if got := k.Store.Value("invoices"); got != 1 {
			t.Errorf("there are %v invoices after the retry, want 1", got)
		}
	})
}

// A handler that takes its time is waited for.
func TestKit_SlowHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		done := false
		k.Consume(orders, func(context.Context, *memstore.Tx, *waybill.Message) error {
			time.Sleep(20 * time.Second)
			done = true
			return nil
		}, consumer.Config{})
		k.Enqueue(order)
		if !done {
			t.Error("Enqueue() has returned before the handler")
		}
	})
}

// One handler leads to the next.
func TestKit_Chain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		const last = 20
		for n := range last {
			from := consumer.Subscription{Group: fmt.Sprint("g", n), Topics: []string{fmt.Sprint("t", n)}}
			k.Consume(from, func(ctx context.Context, tx *memstore.Tx, _ *waybill.Message) error {
				_, err := k.Outbox().Enqueue(ctx, tx, waybill.Message{Topic: fmt.Sprint("t", n+1)})
				return err
			}, consumer.Config{})
		}
		k.Enqueue(waybill.Message{Topic: "t0"})
		if got := k.Messages(fmt.Sprint("t", last)); len(got) != 1 {
			t.Errorf("Messages() = %v, want one at the end of the chain", got)
		}
	})
}

func wantInvoices(t *testing.T, k *waybilltest.Kit, want ...string) {
	t.Helper()
	var got []string
	for _, event := range waybilltest.Published[invoice](t, k, "invoices") {
		got = append(got, event.Order)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || k.Store.Value("invoices") != len(want) {
		t.Errorf("Published() = %v with %v invoices, want %v", got, k.Store.Value("invoices"), want)
	}
}
