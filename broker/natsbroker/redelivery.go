package natsbroker

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/contract"
)

var (
	_ contract.Redeliverer = (*Broker)(nil)
	_ contract.Redeliverer = (*subscriber)(nil)
)

// Redelivery implements [contract.Redeliverer]: the stream keeps a message for its age limit,
// as it was when the broker was opened or pinged, and drops duplicates within its window.
func (b *Broker) Redelivery() contract.Redelivery {
	if seen := b.redelivery.Load(); seen != nil {
		return *seen
	}
	return redeliveryOf(b.cfg.stream())
}

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() contract.Redelivery { return s.broker.Redelivery() }

func redeliveryOf(s jetstream.StreamConfig) contract.Redelivery {
	return contract.Redelivery{Bound: s.MaxAge, Unbounded: s.MaxAge == 0, DuplicateWindow: s.Duplicates}
}
