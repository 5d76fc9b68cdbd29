package kafkabroker

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer] from what the cluster reports about the Kafka topic.
// One that is missing is unroutable; settings that may not be read are shown as not told.
func (b *Broker) Explain(ctx context.Context, topic string) ([]guarantee.Fact, error) {
	name, ok := topicOf(b.cfg.TopicPrefix, topic, "")
	if !ok {
		return nil, invalidf("Explain", "the topic makes no legal name of a Kafka topic")
	}
	details, err := b.topics.describe(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	detail, found, err := detailOf(details, name)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, unknownTopic(name)
	}
	settings, err := b.settings(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	at := func(key string) string { return setting(settings[name], key) }
	facts := durability(replicas(detail), at("min.insync.replicas"), at("unclean.leader.election.enable"))
	return append(facts, b.otherFacts(detail, at(maxBytesKey))...), nil
}

// durability says what a confirmed message survives.
func durability(replicas int, minISR, unclean string) []guarantee.Fact {
	atLeast, err := strconv.Atoi(minISR)
	copies := guarantee.Fact{
		About: guarantee.Durability, Setting: "replication.factor", Value: strconv.Itoa(replicas),
		Survives: guarantee.NodeLoss, Means: "The message has copies on several brokers.",
	}
	if replicas < 2 {
		copies.Survives, copies.Stronger = guarantee.ProcessCrash, "replication.factor: 3"
		copies.Means = "One broker has the message; it is in that machine's page cache, and on disk when the system writes it."
	}
	confirmed := guarantee.Fact{
		About: guarantee.Durability, Setting: "min.insync.replicas", Value: minISR,
		Survives: guarantee.NodeLoss, Means: "The minimum number of brokers that have a confirmed message.",
	}
	switch {
	case err != nil:
		confirmed.Survives, confirmed.Means = guarantee.Unknown, "The cluster does not tell how many brokers confirm."
	case atLeast < 2:
		confirmed.Survives, confirmed.Stronger = guarantee.ProcessCrash, "min.insync.replicas: 2"
		confirmed.Means = "One broker alone may confirm a message while the others are behind."
	}
	facts := []guarantee.Fact{
		{About: guarantee.Durability, Setting: "acks", Value: "all", Survives: guarantee.NodeLoss, Means: "A message is confirmed by all replicas that are in sync."},
		copies, confirmed,
	}
	if unclean == "true" {
		facts = append(facts, guarantee.Fact{
			About: guarantee.Durability, Setting: "unclean.leader.election.enable", Value: unclean, Survives: guarantee.ProcessCrash,
			Means: "A broker that is behind may become the leader, and confirmed messages are dropped.", Stronger: "unclean.leader.election.enable: false",
		})
	}
	return facts
}

func (b *Broker) otherFacts(topic kadm.TopicDetail, size string) []guarantee.Fact {
	return []guarantee.Fact{
		{About: guarantee.Order, Setting: "partitions", Value: strconv.Itoa(len(topic.Partitions)),
			Means: "Messages of one key keep their order, with any number of replicas of a group; at most this number of them have work at a time."},
		b.cfg.repeats(),
		{About: guarantee.Duplicates, Setting: "Window", Value: strconv.Itoa(b.cfg.Window),
			Means: "After a crash a group gets again what it acknowledged behind its oldest open message, up to about this number of messages for each partition."},
		{About: guarantee.Size, Setting: maxBytesKey, Value: size,
			Means: "The maximum size of a message in bytes, with its headers."},
		{About: guarantee.Delay,
			Means: "Kafka has no delayed redelivery: a retry waits in the process, and comes at once if that ends."},
	}
}

// repeats says what happens to a message that is published again.
func (c Config) repeats() guarantee.Fact {
	if c.TransactionalID == "" {
		return guarantee.Fact{
			About: guarantee.Duplicates, Setting: "enable.idempotence", Value: "true",
			Means:    "What the client repeats is stored once; what a relay publishes again after a crash or a timeout is stored twice.",
			Stronger: "kafka.transactional_id: a name for the outbox",
		}
	}
	return guarantee.Fact{
		About: guarantee.Duplicates, Setting: "transactional.id", Value: c.TransactionalID + "-LANE",
		Means: "A relay commits messages and the record of them together, and publishes nothing again that is on record; readers must be read_committed, as Waybill's are.",
	}
}
