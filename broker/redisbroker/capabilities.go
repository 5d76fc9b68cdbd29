package redisbroker

import (
	"math"

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
	return broker.Capabilities{
		Fanout:     true,
		Order:      broker.OneReplica,
		MaxDelay:   math.MaxInt64,
		MaxPayload: b.cfg.MaxPayload,
	}
}

// Redelivery implements [contract.Redeliverer]: a stream keeps a message until its groups have
// acknowledged it, and treats one that is published twice as two.
func (b *Broker) Redelivery() contract.Redelivery { return contract.Redelivery{Unbounded: true} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() contract.Redelivery { return s.broker.Redelivery() }
