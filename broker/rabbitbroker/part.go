package rabbitbroker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The kinds of parts.
const (
	exchangePart = "exchange"
	queuePart    = "queue"
	bindingPart  = "binding"
)

// part is one thing that must be on the server.
type part struct {
	kind string
	name string     // of the exchange, or of the queue that is bound
	args amqp.Table // of a queue

	exchange, topic string // of a binding
}

// declare makes the part if it is missing. The server refuses it, and closes ch, if the part is
// there and made otherwise.
func (p part) declare(ch *amqp.Channel) error {
	switch p.kind {
	case exchangePart:
		return ch.ExchangeDeclare(p.name, amqp.ExchangeTopic, true, false, false, false, nil)
	case queuePart:
		_, err := ch.QueueDeclare(p.name, true, false, false, false, p.args)
		return err
	}
	return ch.QueueBind(p.name, p.topic, p.exchange, false, nil)
}

// find fails, and the server closes ch, if the part is missing. It makes nothing. AMQP has no
// such question for a binding.
func (p part) find(ch *amqp.Channel) error {
	if p.kind == exchangePart {
		return ch.ExchangeDeclarePassive(p.name, amqp.ExchangeTopic, true, false, false, false, nil)
	}
	_, err := ch.QueueDeclarePassive(p.name, true, false, false, false, nil)
	return err
}

// declare makes parts in their order.
func declare(ch *amqp.Channel, parts []part) error {
	for _, p := range parts {
		if err := p.declare(ch); err != nil {
			return err
		}
	}
	return nil
}

// id is what no other part of a topology has.
func (p part) id() string { return p.kind + " " + p.title() }

// title names the part for people.
func (p part) title() string {
	if p.kind == bindingPart {
		return fmt.Sprintf("%s: %s → %s", p.exchange, p.topic, p.name)
	}
	return p.name
}

// made says how the part is made.
func (p part) made() string {
	switch p.kind {
	case exchangePart:
		return "topic, durable"
	case bindingPart:
		return ""
	}
	list := []string{"durable"}
	for _, name := range slices.SortedFunc(maps.Keys(p.args), cmp.Compare[string]) {
		list = append(list, fmt.Sprintf("%s: %v", name, p.args[name]))
	}
	return strings.Join(list, ", ")
}
