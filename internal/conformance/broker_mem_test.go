package conformance

import (
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/brokertest"
	"github.com/waybill-go/waybill/broker/membroker"
)

var _ broker.Broker = (*membroker.Broker)(nil)

func TestMemBroker(t *testing.T) {
	server := membroker.New()
	brokertest.Run(t, brokertest.Harness{
		Name:     "memory",
		Features: brokertest.Features{MaxPayload: waybill.MaxPayloadLen},
		Open:     func(*testing.T) broker.Broker { return server.Connect() },
		PublishRaw: func(t *testing.T, topic string, payload []byte, attributes map[string]string) {
			t.Helper()
			if err := server.PublishRaw(topic, payload, attributes, nil); err != nil {
				t.Fatal(err)
			}
		},
	})
	t.Parallel() // once goroutines were counted
}
