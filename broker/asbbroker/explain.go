package asbbroker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer] from what the service reports about the namespace, the
// topic and its subscriptions. The key needs the right to manage. A topic that does not exist is
// unroutable.
func (b *Broker) Explain(ctx context.Context, topic string) ([]guarantee.Fact, error) {
	name := b.names.topic(topic)
	if err := validEntity("topic", name); err != nil {
		return nil, err
	}
	ctx, cancel := b.asking(ctx)
	defer cancel()
	r, err := b.topology.route(ctx, name)
	if err != nil {
		return nil, b.adminError("look up topic "+name, err)
	}
	return r.facts(), nil
}

// route is what the service reports about the route of a topic.
type route struct {
	tier          string // "Standard", "Premium"
	topic         admin.TopicProperties
	subscriptions []admin.SubscriptionPropertiesItem
}

var errNoTopic = waybill.PermanentError(waybill.ReasonUnroutable, errors.New("there is no such topic"))

func (t *topology) route(ctx context.Context, name string) (r route, _ error) {
	topic, err := t.admin.GetTopic(ctx, name, nil)
	switch {
	case err != nil:
		return r, err
	case topic == nil:
		return r, errNoTopic
	}
	namespace, err := t.admin.GetNamespaceProperties(ctx, nil)
	if err != nil {
		return r, err
	}
	r.tier, r.topic = namespace.SKU, topic.TopicProperties
	pages := t.admin.NewListSubscriptionsPager(name, &admin.ListSubscriptionsOptions{MaxPageSize: 100})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return r, err
		}
		r.subscriptions = append(r.subscriptions, page.Subscriptions...)
	}
	return r, nil
}

func (r route) facts() []guarantee.Fact {
	facts := []guarantee.Fact{
		{About: guarantee.Durability, Setting: "tier", Value: r.tier, Survives: guarantee.NodeLoss,
			Means: "by Microsoft's account, what is confirmed is stored three times"},
		r.copies(),
	}
	for _, sub := range r.subscriptions {
		facts = append(facts, keeping(r.topic, sub)...)
	}
	facts = append(facts, partitioning(r.topic))
	for _, sub := range r.subscriptions {
		facts = append(facts, sessions(sub))
	}
	facts = append(facts, duplicates(r.topic))
	for _, sub := range r.subscriptions {
		facts = append(facts, guarantee.Fact{About: guarantee.Duplicates, Setting: "LockDuration" + of(sub), Value: shown(parseDuration(sub.LockDuration)),
			Means: "what a consumer holds for longer without renewing the lock, or held when it died, is delivered again"})
	}
	return append(facts, r.sizes()...)
}

// of names the subscription that a setting is of.
func of(sub admin.SubscriptionPropertiesItem) string { return " of " + sub.SubscriptionName }

// copies says who has a copy of each message.
func (r route) copies() guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "subscriptions", Value: "none", Survives: guarantee.Nothing,
		Means:    "the service confirms and drops what nobody has subscribed to",
		Stronger: "a subscription for each group: waybill topology apply --group"}
	if len(r.subscriptions) == 0 {
		return f
	}
	var groups []string
	for _, sub := range r.subscriptions {
		groups = append(groups, sub.SubscriptionName)
	}
	f.Value, f.Survives, f.Stronger = strings.Join(groups, ", "), guarantee.NodeLoss, ""
	f.Means = "each keeps a copy of its own until that is settled; a group that subscribes later gets nothing of before"
	return f
}

// keeping says what other than a settlement removes a message from a subscription.
func keeping(topic admin.TopicProperties, sub admin.SubscriptionPropertiesItem) []guarantee.Fact {
	deliveries := valueOf(sub.MaxDeliveryCount)
	limit := guarantee.Fact{About: guarantee.Durability, Setting: "MaxDeliveryCount" + of(sub), Value: strconv.Itoa(int(deliveries)), Survives: guarantee.NodeLoss,
		Means: "a message that was given back more often, outages included, goes to the subscription's dead-letter queue, where nothing here looks"}
	if deliveries < maxDeliveries {
		limit.Stronger = "MaxDeliveryCount: " + strconv.Itoa(maxDeliveries)
	}
	facts := []guarantee.Fact{limit}
	facts = append(facts, expiry(topic, sub)...)
	if idle := parseDuration(sub.AutoDeleteOnIdle); finite(idle) {
		facts = append(facts, guarantee.Fact{About: guarantee.Durability, Setting: "AutoDeleteOnIdle" + of(sub), Value: shown(idle), Survives: guarantee.NodeLoss,
			Means:    "a group that is away for so long loses its subscription, with all that waits in it",
			Stronger: "AutoDeleteOnIdle: longer than the longest absence of the group"})
	}
	return facts
}

// expiry says when a message expires, and what happens to it then.
func expiry(topic admin.TopicProperties, sub admin.SubscriptionPropertiesItem) []guarantee.Fact {
	age := guarantee.Fact{About: guarantee.Durability, Setting: "DefaultMessageTimeToLive" + of(sub), Value: "none", Survives: guarantee.NodeLoss,
		Means: "messages are kept for as long as there is room"}
	buried := guarantee.Fact{About: guarantee.Durability, Setting: "DeadLetteringOnMessageExpiration" + of(sub), Value: "false", Survives: guarantee.NodeLoss,
		Means: "what expires is deleted"}
	if valueOf(sub.DeadLetteringOnMessageExpiration) {
		buried.Value, buried.Means = "true", "what expires goes to the subscription's dead-letter queue, where nothing here looks"
	}
	if ttl := shortest(parseDuration(topic.DefaultMessageTimeToLive), parseDuration(sub.DefaultMessageTimeToLive)); finite(ttl) {
		age.Value, age.Means = shown(ttl), "a message that is older expires, received or not"
		age.Stronger = "DefaultMessageTimeToLive: longer than the longest absence of the group"
		if buried.Value == "false" {
			buried.Stronger = "DeadLetteringOnMessageExpiration: true"
		}
	}
	return []guarantee.Fact{age, buried}
}

func partitioning(topic admin.TopicProperties) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Order, Setting: "EnablePartitioning", Value: "false", Means: "one store keeps all messages of the topic in their order"}
	if valueOf(topic.EnablePartitioning) {
		f.Value, f.Means = "true", "the topic is spread over several stores, and only messages of one session are in one of them"
		f.Stronger = "EnablePartitioning: false, when the topic is made"
	}
	return f
}

func sessions(sub admin.SubscriptionPropertiesItem) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Order, Setting: "RequiresSession" + of(sub), Value: "true",
		Means: "messages of one key keep their order, with any number of replicas"}
	if !valueOf(sub.RequiresSession) {
		f.Value, f.Means = "false", "the order of publishing, while the group has one replica and asbbroker.Config.ReceiveBatch is 1"
		f.Stronger = "RequiresSession: true, when the subscription is made (asbbroker.Config.Sessions)"
	}
	return f
}

func duplicates(topic admin.TopicProperties) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Duplicates, Setting: "DuplicateDetectionHistoryTimeWindow", Value: "none",
		Means:    "a publish that is repeated is delivered twice",
		Stronger: "RequiresDuplicateDetection: true, when the topic is made (asbbroker.Config.DuplicateWindow)"}
	if remembered := window(topic.RequiresDuplicateDetection, topic.DuplicateDetectionHistoryTimeWindow); remembered > 0 {
		f.Value, f.Stronger = shown(remembered), ""
		f.Means = "a publish that is repeated within it is dropped; a later copy is delivered too"
	}
	return f
}

func (r route) sizes() []guarantee.Fact {
	message := guarantee.Fact{About: guarantee.Size, Setting: "MaxMessageSizeInKilobytes",
		Means: "the maximum size of a message with its headers; the Standard tier takes 256"}
	if size := r.topic.MaxMessageSizeInKilobytes; size != nil {
		message.Value, message.Means = strconv.FormatInt(*size, 10), "the maximum size of a message with its headers"
	}
	all := guarantee.Fact{About: guarantee.Size, Setting: "MaxSizeInMegabytes",
		Means: "a topic that holds more refuses messages, and they wait in the outbox"}
	if size := r.topic.MaxSizeInMegabytes; size != nil {
		all.Value = strconv.Itoa(int(*size))
	}
	return []guarantee.Fact{message, all}
}

// shortest returns the shorter of two durations of which 0 is none.
func shortest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// finite reports whether a duration of the service is finite; 0 is one that it does not report.
func finite(d time.Duration) bool { return d > 0 && d < math.MaxInt64 }

// shown is d as it is shown, "" if the service does not report it.
func shown(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprint(d)
}
