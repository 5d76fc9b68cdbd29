package membroker

import "github.com/waybill-go/waybill/consumer"

var (
	_ consumer.Redeliverer = (*Broker)(nil)
	_ consumer.Redeliverer = (*subscriber)(nil)
)

// Redelivery implements [consumer.Redeliverer]: nothing outlives the program.
func (b *Broker) Redelivery() consumer.Redelivery { return consumer.Redelivery{} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() consumer.Redelivery { return s.broker.Redelivery() }
