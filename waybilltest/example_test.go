package waybilltest_test

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

// cardFake stands for the service that charges cards.
type cardFake struct {
	faults  *waybilltest.Faults
	charges int
}

func (c *cardFake) Charge(context.Context) error {
	if err := c.faults.Step("charge the card"); err != nil {
		return err
	}
	c.charges++
	return nil
}

// The handler charges a card before it writes its row. The row is in the transaction, which
// also records the message as handled; the charge is not. A test that delivers the message once,
// or twice, finds nothing.
func ExampleCheck() {
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		store, cards := f.MemStore(), &cardFake{faults: f}
		handler := func(ctx context.Context, tx *memstore.Tx, m *waybill.Message) error {
			if err := cards.Charge(ctx); err != nil {
				return err
			}
			tx.Set("paid "+m.Subject, true)
			return nil
		}
		return waybilltest.Subject{
			Deliver: waybilltest.Handle(store, "billing", handler),
			Message: waybill.Message{ID: "m-1", Subject: "o-17"},
			Effect:  func() any { return cards.charges },
		}
	})
	fmt.Println(err)
	// Output:
	// waybilltest: the effect is not once under this schedule:
	//   delivery 1
	//     record the message in the inbox
	//     charge the card
	//     CRASH before: set "paid o-17"
	//   delivery 2, by a new process
	//     record the message in the inbox
	//     charge the card
	//     set "paid o-17"
	//     commit
	//     answer to commit
	//     acknowledge
	//   the effect is 2, want 1
}
