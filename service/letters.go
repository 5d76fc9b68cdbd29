package service

import (
	"context"
	"strconv"
	"time"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// The headers of a message that is published as a dead letter.
const (
	HeaderDeadConsumer = "waybill-dead-consumer" // the consumer that dead-lettered it
	HeaderDeadReason   = "waybill-dead-reason"   // a waybill.Reason
	HeaderDeadError    = "waybill-dead-error"    // of the last attempt
	HeaderDeadAttempts = "waybill-dead-attempts" // a number
	HeaderDeadTopic    = "waybill-dead-topic"    // where the message came from
)

// letterTimeout is how long a broker may take to confirm a dead letter.
const letterTimeout = 10 * time.Second

// LettersTo publishes the dead letters of a leased consumer to a topic: the message as it is,
// with headers that describe the failure. It counts as stored when the broker has confirmed it. The
// topic must have a subscriber. If the broker refuses a dead letter, for example because the
// message with its headers is too large, the message stays with the consumer's broker and is
// retried.
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
	m.Headers[HeaderDeadConsumer] = l.Record.Consumer
	m.Headers[HeaderDeadReason] = string(l.Reason)
	m.Headers[HeaderDeadError] = l.Error
	m.Headers[HeaderDeadAttempts] = strconv.Itoa(l.Attempts)
	m.Headers[HeaderDeadTopic] = m.Address()
	m.Topic, m.To = topic, ""
	m.Complete()
	id := lease.Key{Tenant: l.Record.Tenant, Bus: "dead", Group: l.Record.Consumer, Source: m.Source, Alias: m.Alias(), Message: m.ID}
	return contract.Outgoing{Message: &m, DedupID: id.String(), Resent: true}
}
