package waybill_test

import (
	"fmt"

	"github.com/waybill-go/waybill"
)

type OrderPlaced struct {
	Order string `json:"order"`
	Total int64  `json:"total_cents"`
}

// An event type ties a Go type to a logical name and version; the Go name never travels.
func ExampleEventType() {
	placed := waybill.NewEventType[OrderPlaced]("order.placed", 2)
	msg, err := placed.New("orders", OrderPlaced{Order: "o-17", Total: 4200})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.Type, msg.Alias(), string(msg.Payload))
	event, err := placed.Decode(&msg)
	fmt.Println(event.Order, err)
	// Output:
	// order.placed@v2 order.placed {"order":"o-17","total_cents":4200}
	// o-17 <nil>
}

// A message that one message leads to names it as its cause.
func ExampleMessage_Derive() {
	order := waybill.Message{ID: "m-1", Topic: "orders", Tenant: "acme"}
	invoice := order.Derive()
	invoice.Topic = "invoices"
	fmt.Println(invoice.CorrelationID, invoice.CausationID, invoice.Tenant)
	// Output: m-1 m-1 acme
}

// The kind of an error says what to do about it, however often it was wrapped.
func ExampleKindOf() {
	err := fmt.Errorf("charge card: %w", waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("card expired")))
	fmt.Println(waybill.KindOf(err), waybill.ReasonOf(err), err)
	// Output: permanent rejected charge card: card expired
}
