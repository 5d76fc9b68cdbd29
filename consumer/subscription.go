package consumer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// Subscription says what one consumer group receives.
type Subscription struct {
	// Group is the stable name of the consumer: part of the inbox key, so under a new name everything
	// is handled again. Replicas with one name share the messages. At most
	// [waybill.MaxConsumerLen] bytes. Required.
	Group string

	Topics []string // topics to receive; may be empty if To is set
	To     string   // the destination whose sent messages (Message.To) this group receives; groups that name one destination share them. Optional
}

// Broker is what a consumer receives from. Every broker of the project is one.
type Broker interface {
	// Subscriber returns a subscriber for the consumer group of s. What is wrong with s is reported by
	// its Subscribe.
	Subscriber(s Subscription) contract.Subscriber
}

// Validate checks s and returns an [*waybill.InvalidError] that names the first invalid field and
// the limit that it exceeds, or nil. What a broker cannot express in its addresses is refused
// later, by [contract.Subscriber.Subscribe].
func (s Subscription) Validate() error {
	if s.Group == "" {
		return invalidf("Subscription.Group", "is required")
	}
	if err := validName("Subscription.Group", s.Group, waybill.MaxConsumerLen); err != nil {
		return err
	}
	if len(s.Topics) == 0 && s.To == "" {
		return invalidf("Subscription.Topics", "is empty; at least one topic or To is required")
	}
	first := make(map[string]int, len(s.Topics))
	for i, topic := range s.Topics {
		field := fmt.Sprintf("Subscription.Topics[%d]", i)
		if topic == "" {
			return invalidf(field, "is empty")
		}
		if err := validName(field, topic, waybill.MaxTopicLen); err != nil {
			return err
		}
		if j, ok := first[topic]; ok {
			return invalidf(field, "is the same as Topics[%d]", j)
		}
		first[topic] = i
	}
	return validName("Subscription.To", s.To, waybill.MaxTopicLen)
}

func validName(field, s string, limit int) error {
	if len(s) > limit {
		return invalidf(field, "has %d bytes, the limit is %d", len(s), limit)
	}
	if !utf8.ValidString(s) {
		return invalidf(field, "is not valid UTF-8")
	}
	if i := strings.IndexFunc(s, isControl); i >= 0 {
		return invalidf(field, "has a control character at byte %d", i)
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
