package memstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/memstore"
)

// A message is in the outbox if its transaction has committed, and not otherwise.
func Example() {
	ctx, store := context.Background(), memstore.New()
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, failure := range []error{nil, errors.New("the order is not valid")} {
		_, err := writer.InTx(ctx, func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
			rec.Record(waybill.Message{Topic: "orders", Key: "o-17"})
			return failure
		})
		fmt.Println(err)
	}
	stats, err := store.OutboxStats(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range stats {
		fmt.Println(s.Topic, s.Status, s.Count)
	}
	// Output:
	// <nil>
	// the order is not valid
	// orders Pending 1
}

// The second delivery of a message runs no handler.
func ExampleStore_inbox() {
	ctx, store := context.Background(), memstore.New()
	m := waybill.Message{ID: "placed-17", Type: "order.placed", Topic: "orders", Source: "shop"}
	for range 2 {
		ran, err := inbox.Process(ctx, store, "billing", &m, func(context.Context, *memstore.Tx) error {
			fmt.Println("an invoice")
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// an invoice
	// true <nil>
	// false <nil>
}
