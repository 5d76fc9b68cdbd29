package service

import (
	"context"
	"strconv"
	"time"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// letterTimeout is how long a broker may take to confirm a dead letter.
const letterTimeout = 10 * time.Second

// LettersTo publishes the dead letters of a leased consumer to a topic: the message as it is,
// with headers that describe the failure, such as [deadletter.HeaderReason]. It counts as stored when the
// broker has confirmed it. The topic must have a subscriber. If the broker refuses a dead letter, for
// example because the message with its headers is too large, the message stays with the consumer's
// broker and is retried.
func LettersTo(pub contract.Publisher, topic string) consumer.Letters {
	if pub == nil || topic == "" {
		return consumer.Letters{}
	}
	return consumer.LettersTo(func(ctx context.Context, l inbox.Letter) error {
		ctx, cancel := context.WithTimeout(ctx, letterTimeout)
		defer cancel()
		return pub.Send(ctx, []contract.Outgoing{letterMessage(l, topic)})()[0]
	})
}

// letterMessage returns a dead letter as a message to publish. All of its copies have one
// deduplication id, so that a broker that deduplicates keeps one.
func letterMessage(l inbox.Letter, topic string) contract.Outgoing {
	m := l.Message.Clone()
	if m.Headers == nil {
		m.Headers = make(map[string]string)
	}
	m.Headers[deadletter.HeaderConsumer] = l.Record.Consumer
	m.Headers[deadletter.HeaderReason] = string(l.Reason)
	m.Headers[deadletter.HeaderError] = l.Error
	m.Headers[deadletter.HeaderAttempts] = strconv.Itoa(l.Attempts)
	m.Headers[deadletter.HeaderTopic] = m.Address()
	m.Topic, m.To = topic, ""
	m.Complete()
	id := lease.Key{Tenant: l.Record.Tenant, Bus: "dead", Group: l.Record.Consumer, Source: m.Source, Alias: m.Alias(), Message: m.ID}
	return contract.Outgoing{Message: &m, DedupID: id.String(), Resent: true}
}
