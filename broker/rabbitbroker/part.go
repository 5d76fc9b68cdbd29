package rabbitbroker

import (
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
	name string // of the exchange, or of the queue that is bound

	exchangeType    string       // of an exchange
	ways            []amqp.Table // of a queue: arguments to declare it with, the wanted ones first
	exchange, topic string       // of a binding
}

// declare creates the part if it is missing, and returns the arguments of a queue. The server
// refuses if the part exists with other settings.
func (p part) declare(d *declarer) (amqp.Table, error) {
	if p.kind == queuePart {
		return p.declareQueue(d)
	}
	return nil, d.on(func(ch *amqp.Channel) error {
		if p.kind == exchangePart {
			return ch.ExchangeDeclare(p.name, p.exchangeType, true, false, false, false, nil)
		}
		return ch.QueueBind(p.name, p.topic, p.exchange, false, nil)
	})
}

// find fails, and the server closes ch, if the part is missing. It creates nothing. AMQP has no
// such request for a binding.
func (p part) find(ch *amqp.Channel) error {
	if p.kind == exchangePart {
		return ch.ExchangeDeclarePassive(p.name, p.exchangeType, true, false, false, false, nil)
	}
	_, err := ch.QueueDeclarePassive(p.name, true, false, false, false, nil)
	return err
}

// id identifies the part in a topology.
func (p part) id() string { return p.kind + " " + p.title() }

// title is the part's name for people.
func (p part) title() string {
	if p.kind == bindingPart {
		return fmt.Sprintf("%s: %s → %s", p.exchange, p.topic, p.name)
	}
	return p.name
}

// made describes the settings of the part.
func (p part) made() string {
	switch p.kind {
	case exchangePart:
		return p.exchangeType + ", durable"
	case bindingPart:
		return ""
	}
	list := []string{"durable"}
	for _, name := range slices.Sorted(maps.Keys(p.ways[0])) {
		list = append(list, fmt.Sprintf("%s: %v", name, p.ways[0][name]))
	}
	return strings.Join(list, ", ")
}
