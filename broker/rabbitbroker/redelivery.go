package rabbitbroker

import "github.com/waybill-go/waybill/consumer"

var (
	_ consumer.Redeliverer = (*Broker)(nil)
	_ consumer.Redeliverer = (*subscriber)(nil)
)

// Redelivery implements [consumer.Redeliverer]: queues keep a message until it is
// acknowledged, and treat one that is published twice as two.
func (b *Broker) Redelivery() consumer.Redelivery { return consumer.Redelivery{Unbounded: true} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() consumer.Redelivery { return s.broker.Redelivery() }
