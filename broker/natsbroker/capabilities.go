package natsbroker

import (
	"math"

	"github.com/waybill-go/waybill/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Capabilities implements [broker.Broker]. The deduplication window is that of the stream as it
// was when the broker was opened or pinged; the largest payload is that of the server.
func (b *Broker) Capabilities() broker.Capabilities {
	return broker.Capabilities{
		Fanout:      true,
		Order:       broker.OneReplica,
		MaxDelay:    math.MaxInt64,
		MaxPayload:  int(b.nc.MaxPayload()),
		DedupWindow: b.Redelivery().DuplicateWindow,
	}
}
