package rabbitbroker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer]. AMQP reports the server's version. It reports neither
// which queues are bound to a topic, nor their types, nor the number of nodes; so the queue type is
// the one that this configuration creates queues with.
func (b *Broker) Explain(ctx context.Context, _ string) ([]guarantee.Fact, error) {
	if err := b.ask(ctx, func(*amqp.Channel) error { return nil }); err != nil { // to be connected
		return nil, fmt.Errorf("rabbitbroker: explain: %w", err)
	}
	return append(b.current().queueFacts(), guarantee.Fact{
		About: guarantee.Duplicates,
		Means: "there is no deduplication: a publish that is repeated is delivered twice",
	}), nil
}

// queueFacts returns what queues do with a confirmed message.
func (t topology) queueFacts() []guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: amqp.QueueTypeArg, Value: t.wantedType(), Survives: guarantee.PowerLoss}
	if f.Value == ClassicQueue {
		f.Means = "queues that are declared by this configuration are on the disk of one node; a retry queue hands over without a confirm"
		f.Stronger = "x-queue-type: quorum"
		return []guarantee.Fact{f}
	}
	f.Means = "queues that are declared by this configuration are on the disks of a majority of their nodes"
	if t.queueType == "" {
		f.Means += "; one that was there as a classic queue stays one, which waybill topology plan shows"
	}
	facts := []guarantee.Fact{f, {
		About: guarantee.Durability, Setting: "nodes of the cluster",
		Means:    "a quorum queue outlives the loss of a minority of its nodes, which is none if there is one",
		Stronger: "three nodes or more",
	}}
	if t.server.atLeast(limitsDeliveries) {
		facts = append(facts, guarantee.Fact{About: guarantee.Durability, Setting: "delivery-limit",
			Means:    "RabbitMQ 4 drops what was given back 20 times to a queue that was made without x-delivery-limit",
			Stronger: "delivery-limit: high, by a policy, with a dead-letter exchange"})
	}
	return facts
}
