package asbbroker

import (
	"time"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
)

var (
	_ broker.Broker        = (*Broker)(nil)
	_ broker.Topology      = (*Broker)(nil)
	_ contract.Redeliverer = (*Broker)(nil)
	_ contract.Redeliverer = (*subscriber)(nil)
)

// maxDelay is the longest retry delay that is promised. The service documents no limit for
// scheduled messages.
const maxDelay = 365 * 24 * time.Hour

// Capabilities implements [broker.Broker].
func (b *Broker) Capabilities() broker.Capabilities {
	return broker.Capabilities{
		Fanout:      true,
		Order:       b.order(),
		MaxDelay:    maxDelay,
		DeadLetters: true,
		MaxPayload:  b.cfg.MaxPayload,
		DedupWindow: b.cfg.DuplicateWindow,
	}
}

func (b *Broker) order() broker.Order {
	switch {
	case b.cfg.Sessions:
		return broker.PerKey
	case b.cfg.ReceiveBatch == 1:
		return broker.OneReplica
	}
	return broker.NoOrder
}

// Redelivery implements [contract.Redeliverer]: entities that are made here keep a message until
// it is acknowledged.
func (b *Broker) Redelivery() contract.Redelivery {
	return contract.Redelivery{Unbounded: true, DuplicateWindow: b.cfg.DuplicateWindow}
}

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() contract.Redelivery { return s.broker.Redelivery() }
