package kafkabroker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ broker.Topology = (*Broker)(nil)

const (
	topicKind        = "topic"
	cleanupPolicyKey = "cleanup.policy"
)

// Plan implements [broker.Topology]: each topic and each destination needs a Kafka topic, created
// with [Config.Partitions] and [Config.ReplicationFactor], and [Config.TransactionalID] one more.
// Groups need nothing. A topic that exists and has other numbers, where the configuration sets them,
// or is compacted, is a conflict: partitions are never added, because keys would change theirs and
// lose their order.
func (b *Broker) Plan(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Plan(b.plan(ctx, w))
}

// Apply implements [broker.Topology]: it creates the topics that are missing.
func (b *Broker) Apply(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	return brokerkit.Apply(b.plan(ctx, w))
}

func (b *Broker) plan(ctx context.Context, w broker.Wanted) (plan []brokerkit.Part, err error) {
	names, err := b.wantedTopics(w)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	details, err := b.topics.describe(ctx, names)
	if err != nil {
		return nil, err
	}
	settings, err := b.settings(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		step, err := b.step(name, details, setting(settings[name], cleanupPolicyKey))
		if err != nil {
			return nil, err
		}
		plan = append(plan, brokerkit.Part{Step: step, Make: func() error { return b.topics.create(ctx, name) }})
	}
	return plan, nil
}

// wantedTopics returns the names of the Kafka topics that w needs, sorted.
func (b *Broker) wantedTopics(w broker.Wanted) ([]string, error) {
	var names []string
	add := func(field, topic, to string) error {
		name, ok := b.cfg.placeOf(topic, to)
		if !ok {
			return invalidf(field, "makes no legal name of a Kafka topic")
		}
		names = append(names, name)
		return nil
	}
	for i, topic := range w.Topics {
		if err := add(fmt.Sprintf("Wanted.Topics[%d]", i), topic, ""); err != nil {
			return nil, err
		}
	}
	for i, to := range w.Destinations {
		if err := add(fmt.Sprintf("Wanted.Destinations[%d]", i), "", to); err != nil {
			return nil, err
		}
	}
	for _, s := range w.Subscriptions {
		memberships, err := membershipsOf(b.cfg.TopicPrefix, s)
		if err != nil {
			return nil, err
		}
		for _, m := range memberships {
			names = append(names, m.topics...)
		}
	}
	if name := b.cfg.progressTopic(); name != "" {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// step compares one topic with what is configured.
func (b *Broker) step(name string, details kadm.TopicDetails, policy string) (broker.Step, error) {
	s := broker.Step{Kind: topicKind, Name: name, Action: broker.Keep}
	topic, found, err := detailOf(details, name)
	switch {
	case err != nil:
		return s, err
	case !found:
		s.Action = broker.Create
		s.Detail = fmt.Sprintf("partitions: %s, replication.factor: %s", count(b.cfg.partitionsOf(name)), count(b.cfg.ReplicationFactor))
		return s, nil
	}
	var wrong []string
	differs := func(setting string, has, wanted int) {
		if wanted > 0 && has != wanted {
			wrong = append(wrong, fmt.Sprintf("%s: is %d, wanted %d", setting, has, wanted))
		}
	}
	differs("partitions", len(topic.Partitions), b.cfg.partitionsOf(name))
	differs("replication.factor", replicas(topic), b.cfg.ReplicationFactor)
	if strings.Contains(policy, "compact") {
		wrong = append(wrong, fmt.Sprintf("%s: is %s, which drops messages of a key, wanted delete", cleanupPolicyKey, policy))
	}
	if len(wrong) > 0 {
		s.Action, s.Detail = broker.Conflict, strings.Join(wrong, "; ")
	}
	return s, nil
}

// count is how a number that may be left to the cluster is shown.
func count(n int) string {
	if n == 0 {
		return "the cluster's default"
	}
	return fmt.Sprint(n)
}

// replicas returns the number of copies of a topic, that of the partition with the fewest.
func replicas(topic kadm.TopicDetail) int {
	least := 0
	for _, p := range topic.Partitions {
		if n := len(p.Replicas); least == 0 || n < least {
			least = n
		}
	}
	return least
}

// settings returns those of the topics that exist, as far as the cluster reports them.
func (b *Broker) settings(ctx context.Context, names []string) (map[string]kadm.ResourceConfig, error) {
	configs, err := b.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil && !isAuth(err) {
		return nil, classify("read settings of topics", err)
	}
	settings := make(map[string]kadm.ResourceConfig)
	for _, topic := range configs {
		settings[topic.Name] = topic
	}
	return settings, nil
}
