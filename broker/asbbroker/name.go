package asbbroker

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
)

const (
	maxEntityName       = 260 // of a topic or queue
	maxSubscriptionName = 50
	maxIDLen            = 128 // of message ids and session ids

	// retryPath begins the names of the queues in which messages wait for their next attempt.
	retryPath = "waybill-retry/"
)

var (
	legalEntity       = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9_])?$`)
	legalSubscription = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$`)
	hashedName        = regexp.MustCompile(`-x[0-9a-f]{16}$`)
	illegalRunes      = regexp.MustCompile(`[^a-z0-9._-]+`)
)

// names maps topics, destinations and groups to their names in the namespace.
type names struct{ topicPrefix, queuePrefix string }

func (n names) topic(topic string) string { return n.topicPrefix + topic }
func (n names) queue(to string) string    { return n.queuePrefix + to }

// retry returns the queue in which a group's messages wait for their next attempt.
func (n names) retry(group string) string { return n.queuePrefix + retryPath + subscriptionName(group) }

// of returns where m is published to, or an error if the service has no such name.
func (n names) of(m *waybill.Message) (string, error) {
	if (m.Topic == "") == (m.To == "") {
		return "", invalid("Topic", "exactly one of Topic and To is required")
	}
	if m.To != "" {
		return n.queue(m.To), validEntity("To", n.queue(m.To))
	}
	return n.topic(m.Topic), validEntity("Topic", n.topic(m.Topic))
}

// valid reports what is wrong with the addresses of a subscription.
func (n names) valid(sub consumer.Subscription) error {
	if err := sub.Validate(); err != nil {
		return err
	}
	for _, topic := range sub.Topics {
		if err := validEntity("Subscription.Topics", n.topic(topic)); err != nil {
			return err
		}
	}
	if sub.To == "" {
		return nil
	}
	return validEntity("Subscription.To", n.queue(sub.To))
}

func validEntity(field, name string) error {
	switch {
	case len(name) > maxEntityName:
		return invalid(field, "has %d bytes with its prefix, Service Bus's limit is %d", len(name), maxEntityName)
	case !legalEntity.MatchString(name):
		return invalid(field, "is no name that Service Bus allows: letters, digits, '.', '-', '_' and '/', with a letter or digit at both ends")
	case strings.Contains(strings.ToLower(name), "/subscriptions/") || strings.Contains(name, "//"):
		return invalid(field, "holds a path that Service Bus keeps for itself")
	}
	return nil
}

// subscriptionName returns the name of a group's subscriptions. A group whose name is legal there
// keeps it; any other gets a legal name with a hash at its end, because names in Service Bus are
// short and do not tell upper case from lower case. Two groups never share a name, but for a
// collision of hashes of 64 bits.
func subscriptionName(group string) string {
	if len(group) <= maxSubscriptionName && legalSubscription.MatchString(group) && !hashedName.MatchString(group) {
		return group
	}
	sum := sha256.Sum256([]byte(group))
	hash := "-x" + hex.EncodeToString(sum[:8])
	readable := strings.Trim(illegalRunes.ReplaceAllString(strings.ToLower(group), "-"), "._-")
	if readable == "" {
		readable = "group"
	}
	return readable[:min(len(readable), maxSubscriptionName-len(hash))] + hash
}

// shortID returns an id as it is if Service Bus takes one of that length, else its hash.
func shortID(id string) string {
	if len(id) <= maxIDLen {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}
