package brokerkit

import (
	"fmt"

	"github.com/waybill-go/waybill/consumer"
)

// Address is one that a subscription receives from: a topic or a destination.
type Address struct {
	Topic, To string // one of them is set
	Field     string // names it in errors
}

// Addresses returns those of a subscription, or what is wrong with it.
func Addresses(s consumer.Subscription) ([]Address, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	list := make([]Address, 0, len(s.Topics)+1)
	for i, topic := range s.Topics {
		list = append(list, Address{Topic: topic, Field: fmt.Sprintf("Subscription.Topics[%d]", i)})
	}
	if s.To != "" {
		list = append(list, Address{To: s.To, Field: "Subscription.To"})
	}
	return list, nil
}
