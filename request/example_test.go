package request_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/request"
)

// A service that asks another one for a price. The broker is rabbitbroker, natsbroker,
// kafkabroker, redisbroker, asbbroker or, in tests, membroker.
func ExampleClient() {
	ask := func(ctx context.Context, broker request.Broker) error {
		client, err := request.NewClient(broker, request.Config{Source: "shop", Timeout: 5 * time.Second})
		if err != nil {
			return err // names the field that is wrong
		}
		go func() { _ = client.Run(ctx) }() // for as long as the service runs

		reply, err := client.Request(ctx, waybill.Message{To: "prices", Type: "price.get", Payload: []byte(`{"sku":"A-1"}`)})
		switch {
		case errors.Is(err, request.ErrTimeout):
			return fmt.Errorf("prices are not known right now: %w", err)
		case err != nil:
			return err
		}
		fmt.Println(string(reply.Payload))
		return nil
	}
	_ = ask
}

// A handler that answers in its transaction: the reply is sent if that commits.
func ExampleReply() {
	handler := func(writer *outbox.Writer[*Tx]) func(ctx context.Context, tx *Tx, m *waybill.Message) error {
		return func(ctx context.Context, tx *Tx, m *waybill.Message) error {
			price := []byte(`{"cents":1999}`) // read by tx
			return request.Reply(ctx, writer, tx, waybill.Message{Payload: price})
		}
	}
	_ = handler
}

// Tx is the transaction of your store.
type Tx struct{}
