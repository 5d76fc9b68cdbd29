package rabbitbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer]. AMQP tells the server's version. It tells neither which
// queues are bound to a topic nor of what type they are; so the queue type is the one that this
// configuration declares.
func (b *Broker) Explain(ctx context.Context, _ string) ([]guarantee.Fact, error) {
	version := ""
	err := b.ask(ctx, func(*amqp.Channel) error {
		version, _ = b.publisher.conn.Properties["version"].(string)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rabbitbroker: explain: %w", err)
	}
	return append(queueFacts(b.cfg.QueueType, version), guarantee.Fact{
		About: guarantee.Duplicates,
		Means: "there is no deduplication: a publish that is repeated is delivered twice",
	}), nil
}

// queueFacts say what queues of a type do with a confirmed message.
func queueFacts(queueType, version string) []guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "x-queue-type", Value: queueType}
	if queueType == ClassicQueue {
		f.Means = "queues that are declared by this configuration are on the disk of one node; a retry queue hands over without a confirm"
		f.Survives, f.Stronger = guarantee.PowerLoss, "x-queue-type: quorum"
		return []guarantee.Fact{f}
	}
	f.Means = "queues that are declared by this configuration outlive the loss of a minority of their nodes, if the cluster has three or more"
	f.Survives = guarantee.NodeLoss
	facts := []guarantee.Fact{f}
	if major, _, _ := strings.Cut(version, "."); atLeast(major, 4) {
		facts = append(facts, guarantee.Fact{About: guarantee.Durability, Setting: "delivery-limit",
			Means:    "RabbitMQ " + version + " drops a message that was given back more often, 20 times unless a policy says otherwise",
			Stronger: "delivery-limit: high, by a policy, with a dead-letter exchange"})
	}
	return facts
}

func atLeast(number string, least int) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n >= least
}
