package relay

import "fmt"

// OrderPolicy says what happens to a key's later messages when one of them fails. It applies to
// each destination separately, and only to messages with a key.
type OrderPolicy int

const (
	// Block makes them wait until the failed message was published or has become a dead letter; then
	// the key continues.
	Block OrderPolicy = iota
	// Park is Block while the message is retried. If it becomes a dead letter the rest of its key waits
	// behind the dead letter, including what is enqueued from then on, until the dead letter is
	// requeued, and then published first, or resolved.
	Park
	// Skip abandons the order: only the failed message waits for its retry, the rest of the key
	// continues.
	Skip
)

// String returns the policy as it is written in the configuration file.
func (p OrderPolicy) String() string {
	switch p {
	case Block:
		return "block"
	case Park:
		return "park"
	case Skip:
		return "skip"
	}
	return fmt.Sprintf("OrderPolicy(%d)", int(p))
}

func (p OrderPolicy) valid() bool { return p >= Block && p <= Skip }

func (c *Config) validateOrder() error {
	if !c.Order.valid() {
		return invalid("Order", "is %d, none of Block, Park and Skip", c.Order)
	}
	for topic, p := range c.TopicOrder {
		if topic == "" {
			return invalid("TopicOrder", "has a policy for the empty topic; the one for all others is Order")
		}
		if !p.valid() {
			return invalid("TopicOrder", "is %d for topic %q, none of Block, Park and Skip", p, topic)
		}
	}
	switch {
	case c.MaxParkedMessages < 0:
		return invalid("MaxParkedMessages", "is %d; it must be positive", c.MaxParkedMessages)
	case c.MaxParkedKeys < 0:
		return invalid("MaxParkedKeys", "is %d; it must be positive", c.MaxParkedKeys)
	}
	return nil
}
