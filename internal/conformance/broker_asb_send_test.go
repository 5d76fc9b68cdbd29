package conformance

import (
	"context"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/sbfake"
)

// asbSendAll publishes in one call, and returns the results.
func asbSendAll(t *testing.T, b *asbbroker.Broker, msgs []waybill.Message) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list := make([]contract.Outgoing, len(msgs))
	for i := range msgs {
		msgs[i].Complete()
		list[i] = contract.Outgoing{Message: &msgs[i], DedupID: msgs[i].ID}
	}
	return b.Publisher().Send(ctx, list)()
}

// TestASBBroker_NothingPassesWhatWasLost: when the connection ends under a batch, those behind it are
// not sent over a new one.
func TestASBBroker_NothingPassesWhatWasLost(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	asbApply(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	a.fake.CutBeforeConfirm()
	msgs := make([]waybill.Message, 1200) // more than two batches
	for i := range msgs {
		msgs[i].Topic = "t"
	}
	for i, err := range asbSendAll(t, b, msgs) {
		if !waybill.IsUnavailable(err) {
			t.Fatalf("message %d: %v of kind %v, want unavailable", i+1, err, waybill.KindOf(err))
		}
	}
	if ready, _, _ := a.fake.Count("t/subscriptions/g"); ready > 500 {
		t.Errorf("%d messages were sent, want one batch", ready)
	}
}

// TestASBBroker_BatchRefused: of a batch that is refused, each message is tried alone.
func TestASBBroker_BatchRefused(t *testing.T) {
	t.Parallel()
	const refusals = 2
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	asbApply(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	for range 5 { // the first message may be sent before the others are there
		a.fake.Refuse(refusals, "amqp:not-allowed")
		msgs, refused := make([]waybill.Message, 20), 0
		for i := range msgs {
			msgs[i].Topic = "t"
		}
		for _, err := range asbSendAll(t, b, msgs) {
			if err != nil {
				refused++
			}
		}
		if refused > refusals {
			t.Fatalf("%d messages are refused, %d transfers were", refused, refusals)
		}
		a.fake.Refuse(0, "")
	}
}

// TestASBBroker_TooLargeForTheService: what the service refuses is reported of that message alone,
// without a limit of our own.
func TestASBBroker_TooLargeForTheService(t *testing.T) {
	t.Parallel()
	fake, err := sbfake.Start(sbfake.Config{MaxMessageSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	a := &asb{connection: fake.ConnectionString(), http: fake.HTTPClient(), fake: fake}
	b := a.open(t, asbbroker.Config{})
	asbApply(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	msgs := make([]waybill.Message, 5)
	for i := range msgs {
		msgs[i].Topic = "t"
	}
	msgs[2].Payload = make([]byte, 100<<10)
	for i, err := range asbSendAll(t, b, msgs) {
		if tooLarge := waybill.IsPermanent(err) && waybill.ReasonOf(err) == waybill.ReasonTooLarge; tooLarge != (i == 2) || err != nil && i != 2 {
			t.Errorf("message %d: %v, want only the third too large", i+1, err)
		}
	}
	if ready, _, _ := fake.Count("t/subscriptions/g"); ready != 4 {
		t.Errorf("%d messages are stored, want 4", ready)
	}
}

// TestASBBroker_ReadWithoutCloudEvents: what has a property of its own in Service Bus stands there.
func TestASBBroker_ReadWithoutCloudEvents(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	asbApply(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	must(t, asbSend(t, b, waybill.Message{Topic: "t", Type: "order.created", CorrelationID: "order-7", ContentType: "text/plain"}))
	client, err := azservicebus.NewClientFromConnectionString(a.connection, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	receiver, err := client.NewReceiverForSubscription("t", "g", nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := receiver.ReceiveMessages(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]struct {
		got  *string
		want string
	}{
		"subject":        {list[0].Subject, "order.created"},
		"correlation id": {list[0].CorrelationID, "order-7"},
		"content type":   {list[0].ContentType, "text/plain"},
	} {
		if pair.got == nil || *pair.got != pair.want {
			t.Errorf("%s = %v, want %q", name, pair.got, pair.want)
		}
	}
}
