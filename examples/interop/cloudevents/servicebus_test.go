package cloudevents

import (
	"context"
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/testtools/sbfake"
)

// TestServiceBus reads with the official client, from a server in this process.
func TestServiceBus(t *testing.T) {
	t.Parallel()
	fake, err := sbfake.Start(sbfake.Config{})
	must(t, err)
	t.Cleanup(fake.Close)
	b, err := asbbroker.Open(t.Context(), asbbroker.Config{URL: fake.ConnectionString(), HTTPClient: fake.HTTPClient()})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	topic := odd().Topic
	_, err = b.Apply(t.Context(), broker.Wanted{Subscriptions: []consumer.Subscription{{Group: "sdk", Topics: []string{topic}}}})
	must(t, err)
	client, err := azservicebus.NewClientFromConnectionString(fake.ConnectionString(), nil)
	must(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	receiver, err := client.NewReceiverForSubscription(topic, "sdk", nil)
	must(t, err)
	for _, structured := range []bool{false, true} {
		publish(t, b, structured)
		list, err := receiver.ReceiveMessages(t.Context(), 1, nil)
		must(t, err)
		headers := make(map[string]string)
		for name, value := range list[0].ApplicationProperties {
			headers[name] = fmt.Sprint(value)
		}
		expect(t, NewMessage(ServiceBus, headers, *list[0].ContentType, list[0].Body), structured)
	}

	sender, err := client.NewSender(topic, nil)
	must(t, err)
	expectStructured(t, b, "reader", func(contentType string, body []byte) {
		must(t, sender.SendMessage(t.Context(), &azservicebus.Message{ContentType: &contentType, Body: body}, nil))
	})
}
