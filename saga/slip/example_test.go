package slip_test

import (
	"context"
	"fmt"
	"log"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga/slip"
)

// reservation is the argument of the activity of the stock.
type reservation struct {
	Item string `json:"item"`
}

// reserve is an activity of the stock, with its compensation. What they write goes into tx.
var reserve = slip.Activity[int]{
	Name: "reserve",
	Execute: func(ctx context.Context, tx int, c *slip.Call) error {
		var r reservation
		if err := c.Args(&r); err != nil {
			return err
		}
		fmt.Println("reserve", r.Item)
		if err := c.SetVar("shelf", "B12"); err != nil { // for those that come after
			return err
		}
		return c.SetLog("reservation 99") // for the compensation
	},
	Compensate: func(ctx context.Context, tx int, c *slip.Call) error {
		var made string
		if err := c.Log(&made); err != nil {
			return err
		}
		fmt.Println("cancel", made)
		return nil
	},
}

// pick has nothing to be undone.
var pick = slip.Activity[int]{
	Name: "pick",
	Execute: func(ctx context.Context, tx int, c *slip.Call) error {
		var shelf string
		_, err := c.Var("shelf", &shelf)
		fmt.Println("pick from", shelf)
		return err
	},
}

// Two activities, here in one process and over a queue in memory. A program passes the handler
// and the configuration to its consumer, and starts the slip in the transaction that stores the
// order.
func Example() {
	ctx, store, tx := context.Background(), &queue{}, 0
	w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	host, err := slip.NewHost(w, slip.Config[int]{Activities: []slip.Activity[int]{reserve, pick}})
	if err != nil {
		log.Fatal(err)
	}
	var handler consumer.Handler[int] = host.Handle
	cfg := consumer.Config{GiveUp: slip.GivesUp}

	s := slip.New().
		Add("reserve", "stock.slips", reservation{Item: "lamp"}).
		Add("pick", "stock.slips", nil).
		Events("slip.events")
	if err := slip.Start(ctx, w, tx, s); err != nil {
		log.Fatal(err)
	}

	for m := store.take(); m != nil; m = store.take() {
		if cfg.GiveUp(m) { // a message of the slip, not an event
			if err := handler(ctx, tx, m); err != nil {
				log.Fatal(err)
			}
			continue
		}
		fmt.Println("event:", m.Type)
	}
	// Output:
	// reserve lamp
	// pick from B12
	// event: waybill.slip.activity_completed
	// event: waybill.slip.activity_completed
	// event: waybill.slip.completed
}
