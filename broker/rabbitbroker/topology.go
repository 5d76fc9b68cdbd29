package rabbitbroker

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/request"
)

// topology is the one plan of what exists on the server. Publishers, subscribers and [Broker.Apply]
// declare from it, so that the arguments are the same wherever a thing is declared.
type topology struct {
	exchange     string
	queueType    string // that is insisted on; "" if what the server has will do
	singleActive bool
	deadLetters  string  // exchange and queue for what the server takes out of a queue; "" for none
	server       version // of the connected server
}

// address returns the exchange and the routing key that a message goes to.
func (t topology) address(m *waybill.Message) (exchange, key string) {
	if m.To != "" {
		return amqp.DefaultExchange, m.To
	}
	return t.exchange, m.Topic
}

// queues returns the names of the queues that a subscription receives from, one or two: the
// group's own, if it has topics, and the one that is named To.
func (t topology) queues(sub consumer.Subscription) []string {
	var names []string
	if len(sub.Topics) > 0 {
		names = append(names, sub.Group)
	}
	if sub.To != "" && (len(names) == 0 || sub.To != sub.Group) {
		names = append(names, sub.To)
	}
	return names
}

// publishing is what a publisher needs.
func (t topology) publishing() []part {
	return []part{{kind: exchangePart, name: t.exchange, exchangeType: amqp.ExchangeTopic}}
}

// subscription is what a consumer of sub needs, in the order in which it can be declared.
func (t topology) subscription(sub consumer.Subscription) []part {
	parts := append(t.publishing(), t.deadLetterParts()...)
	for _, name := range t.queues(sub) {
		parts = append(parts, t.queue(name))
	}
	for _, topic := range sub.Topics {
		parts = append(parts, part{kind: bindingPart, name: sub.Group, exchange: t.exchange, topic: topic})
	}
	return parts
}

// system is what w needs, each part once, in the order in which it can be declared.
func (t topology) system(w broker.Wanted) []part {
	parts := append(t.publishing(), t.deadLetterParts()...)
	for _, name := range w.Destinations {
		parts = append(parts, t.queue(name))
	}
	for _, sub := range w.Subscriptions {
		parts = append(parts, t.subscription(sub)...)
	}
	return brokerkit.Unique(parts, part.id)
}

// deadLetterParts is the exchange for messages that the server removes from a queue, with a queue of
// its name that gets all of them: an exchange without a queue would lose them.
func (t topology) deadLetterParts() []part {
	name := t.deadLetters
	if name == "" {
		return nil
	}
	t.deadLetters, t.singleActive = "", false
	return []part{
		{kind: exchangePart, name: name, exchangeType: amqp.ExchangeFanout},
		t.queue(name),
		{kind: bindingPart, name: name, exchange: name},
	}
}

func (t topology) queue(name string) part {
	if request.IsAddress(name) {
		return replyQueue(name)
	}
	return part{kind: queuePart, name: name, ways: t.queueWays()}
}

// retryQueue names a retry queue.
func retryQueue(queue string, ttl time.Duration) string {
	return retryPrefix(queue) + strconv.FormatInt(ttl.Milliseconds(), 10)
}

// retryPrefix is what the names of a queue's retry queues begin with. A name that could get too long
// is truncated and made unique again by a hash of the whole.
func retryPrefix(queue string) string {
	const suffix, digits, kept = ".retry.", 10, 200
	if len(queue)+len(suffix)+digits > maxShortString {
		sum := sha256.Sum256([]byte(queue))
		queue = strings.ToValidUTF8(queue[:kept], "") + "~" + hex.EncodeToString(sum[:8])
	}
	return queue + suffix
}

// ladder holds the delays that exist, shortest first. Each is a separate queue in which all messages
// wait equally long, so that none is blocked by one before it that waits longer.
var ladder = [...]time.Duration{
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 3 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// step returns the delay of the ladder to wait for next, and the remaining delay. delay is rounded
// up; only one beyond the longest step has a remainder.
func step(delay time.Duration) (ttl, left time.Duration) {
	for _, ttl := range ladder {
		if delay <= ttl {
			return ttl, 0
		}
	}
	longest := ladder[len(ladder)-1]
	return longest, delay - longest
}
