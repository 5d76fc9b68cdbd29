package rabbitbroker

import (
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
)

var (
	_ broker.Broker        = (*Broker)(nil)
	_ contract.Redeliverer = (*Broker)(nil)
	_ contract.Redeliverer = (*subscriber)(nil)
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

// Redelivery implements [contract.Redeliverer]: queues keep a message until it is
// acknowledged, and treat one that is published twice as two.
func (b *Broker) Redelivery() contract.Redelivery { return contract.Redelivery{Unbounded: true} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() contract.Redelivery { return s.broker.Redelivery() }
