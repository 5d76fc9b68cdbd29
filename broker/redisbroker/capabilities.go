package redisbroker

import (
	"math"

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
	return broker.Capabilities{
		Fanout:     true,
		Order:      broker.OneReplica,
		MaxDelay:   math.MaxInt64,
		MaxPayload: b.cfg.MaxPayload,
	}
}

// Redelivery implements [consumer.Redeliverer]: a stream keeps a message until its groups have
// acknowledged it, and treats one that is published twice as two.
func (b *Broker) Redelivery() consumer.Redelivery { return consumer.Redelivery{Unbounded: true} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() consumer.Redelivery { return s.broker.Redelivery() }
