package rabbitbroker

import (
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
)

var (
	_ broker.Broker        = (*Broker)(nil)
	_ consumer.Redeliverer = (*Broker)(nil)
	_ consumer.Redeliverer = (*subscriber)(nil)
)

// Capabilities implements [broker.Broker].
func (b *Broker) Capabilities() broker.Capabilities {
	order := broker.OneReplica
	if b.cfg.SingleActiveConsumer {
		order = broker.PerKey
	}
	return broker.Capabilities{
		Fanout:     true,
		Order:      order,
		MaxDelay:   ladder[len(ladder)-1],
		MaxPayload: b.cfg.MaxPayload,
	}
}

// Redelivery implements [consumer.Redeliverer]: queues keep a message until it is
// acknowledged, and treat one that is published twice as two.
func (b *Broker) Redelivery() consumer.Redelivery { return consumer.Redelivery{Unbounded: true} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() consumer.Redelivery { return s.broker.Redelivery() }
