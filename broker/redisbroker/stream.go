package redisbroker

import (
	"github.com/waybill-go/waybill/consumer"
)

const (
	// sharedGroup is the one group of a destination.
	sharedGroup = "waybill"

	// waiting is the consumer that owns entries that wait for a retry.
	waiting = "(waiting)"
)

// topicStream and destinationStream return the key of a stream. The text in braces decides the
// slot of a Cluster, for this key and those that begin with it.
func topicStream(prefix, topic string) string    { return prefix + "{topic:" + topic + "}" }
func destinationStream(prefix, to string) string { return prefix + "{to:" + to + "}" }

func streamOf(prefix, topic, to string) string {
	if to != "" {
		return destinationStream(prefix, to)
	}
	return topicStream(prefix, topic)
}

// source is one stream that one group receives from.
type source struct {
	topic, to string // the address; one of them is set
	stream    string
	group     string
}

// waitingKey is the sorted set of the entries that wait for a retry, by due time.
func (s source) waitingKey() string { return s.stream + ":waiting:" + s.group }

// keys are the keys of the scripts that move deliveries.
func (s source) keys() []string { return []string{s.stream, s.waitingKey()} }

// sourcesOf returns what a subscription receives from, or why it is refused.
func sourcesOf(prefix string, s consumer.Subscription) ([]source, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	list := make([]source, 0, len(s.Topics)+1)
	for _, topic := range s.Topics {
		list = append(list, source{topic: topic, stream: topicStream(prefix, topic), group: s.Group})
	}
	if s.To != "" {
		list = append(list, source{to: s.To, stream: destinationStream(prefix, s.To), group: sharedGroup})
	}
	return list, nil
}
