package membroker

import (
	"math"

	"github.com/waybill-go/waybill/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Capabilities implements [broker.Broker].
func (b *Broker) Capabilities() broker.Capabilities {
	return broker.Capabilities{Fanout: true, Order: broker.OneReplica, MaxDelay: math.MaxInt64}
}
