package opener

import (
	"fmt"

	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/discovery"
)

// Discovery returns the transport by which services and clients find each other over an
// opened broker, with the default names.
func Discovery(b Broker) (discovery.Transport, error) {
	switch b := b.(type) {
	case *rabbitbroker.Broker:
		return b.Discovery(rabbitbroker.DiscoveryConfig{})
	case *natsbroker.Broker:
		return b.Discovery(natsbroker.DiscoveryConfig{})
	case *membroker.Broker:
		return b.Discovery(), nil
	}
	return nil, fmt.Errorf("discovery over %T is not known", b)
}
