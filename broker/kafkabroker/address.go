package kafkabroker

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/request"
)

const (
	// toToken stands between the prefix and a destination. No topic, and no group, may start
	// with it.
	toToken = "_to."

	// progressToken stands between the prefix and [Config.TransactionalID]. No topic may start
	// with it.
	progressToken = "_progress."

	// replyToken stands behind the prefix, for all reply destinations. No topic may be called so.
	replyToken = "_replies"

	maxNameLen    = 249 // Kafka's limit for the name of a topic
	maxPrefixLen  = 100
	maxPartitions = 1 << 20
	maxReplicas   = 1 << 10
)

// topicOf returns the Kafka topic of a topic or, if to is set, of a destination, and false if
// there is none.
func topicOf(prefix, topic, to string) (string, bool) {
	name := topic
	if to != "" {
		name = toToken + to
	} else if topic == "" || topic == replyToken || strings.HasPrefix(topic, toToken) || strings.HasPrefix(topic, progressToken) {
		return "", false
	}
	name = prefix + name
	return name, legalName(name)
}

// replyTopic is the name of the Kafka topic of all reply destinations.
func (c Config) replyTopic() string { return c.TopicPrefix + replyToken }

// placeOf is topicOf for what is published: reply destinations share a topic.
func (c Config) placeOf(topic, to string) (string, bool) {
	if request.IsAddress(to) {
		return c.replyTopic(), legalName(c.replyTopic())
	}
	return topicOf(c.TopicPrefix, topic, to)
}

// setAddress is the inverse of placeOf. A name without the prefix is kept whole, as the topic.
func setAddress(m *waybill.Message, prefix string, r *kgo.Record) {
	name := strings.TrimPrefix(r.Topic, prefix)
	to, ok := strings.CutPrefix(name, toToken)
	switch {
	case ok:
		m.To = to
	case name == replyToken && request.IsAddress(string(r.Key)):
		m.To = string(r.Key)
	default:
		m.Topic = name
	}
}

// legalName reports whether Kafka takes s as the name of a topic.
func legalName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxNameLen && !strings.ContainsFunc(s, illegal)
}

// illegal reports whether a topic's name may not have r.
func illegal(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return r != '.' && r != '_' && r != '-'
}

// membership is one group of Kafka that a subscription takes part in, and the topics that it
// reads there.
type membership struct {
	group  string
	topics []string
}

// membershipsOf returns the groups of a subscription: its own for its topics, and that of its
// destination, whose name is that of the destination's topic.
func membershipsOf(prefix string, s consumer.Subscription) ([]membership, error) {
	addresses, err := brokerkit.Addresses(s)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(s.Group, prefix+toToken) {
		return nil, invalidf("Subscription.Group", "starts with %q, which names the groups of destinations", prefix+toToken)
	}
	var list []membership
	if len(s.Topics) > 0 {
		list = []membership{{group: s.Group}}
	}
	for _, a := range addresses {
		name, ok := topicOf(prefix, a.Topic, a.To)
		switch {
		case !ok:
			return nil, invalidf(a.Field, "makes no legal name of a Kafka topic")
		case a.To != "":
			list = append(list, membership{group: name, topics: []string{name}})
		default:
			list[0].topics = append(list[0].topics, name)
		}
	}
	return list, nil
}
