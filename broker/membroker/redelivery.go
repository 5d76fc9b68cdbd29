package membroker

import (
	"github.com/waybill-go/waybill/contract"
)

var (
	_ contract.Redeliverer = (*Broker)(nil)
	_ contract.Redeliverer = (*subscriber)(nil)
)

// Redelivery implements [contract.Redeliverer]: nothing outlives the program.
func (b *Broker) Redelivery() contract.Redelivery { return contract.Redelivery{} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() contract.Redelivery { return s.broker.Redelivery() }
