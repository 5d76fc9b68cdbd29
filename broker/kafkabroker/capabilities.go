package kafkabroker

import (
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
)

var (
	_ broker.Broker        = (*Broker)(nil)
	_ contract.Redeliverer = (*Broker)(nil)
	_ contract.Redeliverer = (*subscriber)(nil)
)

// Capabilities implements [broker.Broker]. Kafka has no delayed redelivery: retries wait in
// the process. MaxPayload is 0 because the limit is that of each topic.
func (b *Broker) Capabilities() broker.Capabilities {
	return broker.Capabilities{Fanout: true, Order: broker.PerKey, Transactions: b.cfg.TransactionalID != ""}
}

// Redelivery implements [contract.Redeliverer]. A topic keeps a message for its retention, and
// an operator can set offsets back to any of it; so it is unbounded here. Without
// [Config.TransactionalID] nothing drops what a relay publishes a second time.
func (b *Broker) Redelivery() contract.Redelivery { return contract.Redelivery{Unbounded: true} }

// Redelivery returns that of the broker.
func (s *subscriber) Redelivery() contract.Redelivery { return s.broker.Redelivery() }
