package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
)

var (
	errCardExpired = errors.New("card expired")
	errBusy        = errors.New("the bank is busy")
)

// charge stands for what a handler asks somebody else to do.
func charge(_ context.Context, card string) error {
	switch card {
	case "expired":
		return errCardExpired
	case "later":
		return errBusy
	}
	return nil
}

// A handler says by the error that it returns what happens next.
func ExampleHandler() {
	var handler consumer.Handler[any] = func(ctx context.Context, tx any, m *waybill.Message) error {
		err := charge(ctx, string(m.Payload))
		switch {
		case errors.Is(err, errCardExpired): // no attempt will go better: a dead letter at once
			return waybill.PermanentError(waybill.ReasonRejected, err)
		case errors.Is(err, errBusy): // come again in a minute; the attempt does not count
			return waybill.RetryAfter(time.Minute, err)
		}
		return err // nil commits; anything else counts, and is tried again after a delay
	}
	for _, card := range []string{"valid", "expired", "later"} {
		err := handler(context.Background(), nil, &waybill.Message{Payload: []byte(card)})
		wait, asked := waybill.AfterOf(err)
		fmt.Println(card, waybill.IsPermanent(err), asked, wait)
	}
	// Output:
	// valid false false 0s
	// expired true false 0s
	// later false true 1m0s
}

// Two more tries at once, then four that wait 5, 10, 20 and 30 seconds: five attempts, and
// up to fifteen calls of the handler.
func ExampleConfig_retries() {
	cfg := consumer.Config{
		ImmediateRetries: 2,
		Retry:            waybill.RetryPolicy{MaxRetries: 4, BaseDelay: 5 * time.Second, MaxDelay: 30 * time.Second},
	}
	fmt.Println((1+cfg.Retry.MaxRetries)*(1+cfg.ImmediateRetries), "calls at most")
	// Output: 15 calls at most
}

// A message that would be dead-lettered gets a final attempt: the order is cancelled instead of charged.
func ExampleGivenUpFrom() {
	cfg := consumer.Config{GiveUp: func(m *waybill.Message) bool { return m.Type == "order.placed" }}
	var handler consumer.Handler[any] = func(ctx context.Context, tx any, m *waybill.Message) error {
		if given, ok := consumer.GivenUpFrom(ctx); ok {
			fmt.Println("cancel the order:", given.Err) // in tx
			return nil
		}
		return charge(ctx, string(m.Payload))
	}
	fmt.Println(cfg.GiveUp(&waybill.Message{Type: "order.placed"}), handler(context.Background(), nil, &waybill.Message{Payload: []byte("expired")}))
	// Output: true card expired
}
