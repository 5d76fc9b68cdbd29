package waybilltest_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

// Advance goes from one thing that is due to the next: in three days in which nothing is due the relay
// looks once a minute, which is little work. It counts allocations, so nothing runs next to it.
func TestKit_AdvanceJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		k.Consume(orders, func(context.Context, *memstore.Tx, *waybill.Message) error { return nil }, consumer.Config{})
		k.Enqueue(order)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		k.Advance(72 * time.Hour)
		runtime.ReadMemStats(&after)
		const looks, each = 72 * 60, 120
		if n := after.Mallocs - before.Mallocs; n > looks*each {
			t.Errorf("three idle days took %d allocations, want no more than %d for each of %d looks: something polls", n, each, looks)
		}
	})
}

// A dead letter that is requeued is run at once, and one that met an outage when it is its turn.
func TestKit_Requeue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		var broken atomic.Pointer[error]
		fail := func(err error) { broken.Store(&err) }
		fail(waybill.PermanentError(waybill.ReasonRejected, errors.New("no such customer")))
		k.Consume(orders, func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			if err := broken.Load(); err != nil {
				return *err
			}
			addInvoice(tx)
			return nil
		}, consumer.Config{})
		k.Enqueue(order)
		letters := k.DeadLetters()
		if len(letters) != 1 {
			t.Fatalf("DeadLetters() = %v, want one", letters)
		}
		fail(waybill.UnavailableError(errors.New("the bank is closed")))
		if _, err := k.Store.RequeueDeadLetter(t.Context(), letters[0].Number, deadletter.Act{By: "test", Why: "fixed"}); err != nil {
			t.Fatal(err)
		}
		k.Wait()
		broken.Store(nil)
		k.Advance(10 * time.Second)
		if got := k.Store.Value("invoices"); got != 1 {
			t.Errorf("there are %v invoices 10 s after the requeue, want 1", got)
		}
		if letters := k.DeadLetters(); len(letters) != 0 {
			t.Errorf("DeadLetters() = %v, want none", letters)
		}
	})
}
