package rabbitbroker

import "github.com/waybill-go/waybill/broker"

var _ broker.Broker = (*Broker)(nil)

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
