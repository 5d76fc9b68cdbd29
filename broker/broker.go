// Package broker holds what broker adapters have in common in addition to the two contracts that
// they implement, [contract.Publisher] and [contract.Subscriber]: what each can do, and what each
// needs declared before messages flow.
package broker

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

// Broker is one connection to a broker, as every adapter offers it. It is safe for concurrent use.
type Broker interface {
	// Publisher returns the publishing side.
	Publisher() contract.Publisher

	// Subscriber returns a receiver for one consumer group. Its Subscribe reports an invalid s.
	Subscriber(s consumer.Subscription) contract.Subscriber

	// Capabilities returns what the broker can do. It asks no server.
	Capabilities() Capabilities

	// Ping reports whether the broker is reachable and would confirm what is published.
	Ping(ctx context.Context) error

	// Close ends the connection; unsettled deliveries are redelivered. It may be called twice.
	Close() error
}

// Capabilities says what a broker can do. The zero value can do nothing.
type Capabilities struct {
	// Fanout says that each consumer group of a topic gets every message of it.
	Fanout bool

	// Order is what the broker keeps in order on the way to one consumer group.
	Order Order

	// MaxDelay is the longest delay that [contract.Delivery.Retry] hands to the broker in one
	// step; longer ones take several. 0: the delay is waited for in the process that retries.
	MaxDelay time.Duration

	// DeadLetters says that the broker has its own place for dead-lettered messages.
	DeadLetters bool

	// MaxPayload is the largest payload in bytes that the adapter accepts. 0: any.
	MaxPayload int

	// DedupWindow is how long the broker remembers a deduplication id. 0: it has none.
	DedupWindow time.Duration

	// Transactions says that several messages can be published all or none.
	Transactions bool
}

// Order is what a broker keeps in order on the way to one consumer group.
type Order int

const (
	// NoOrder: messages may arrive in any order.
	NoOrder Order = iota

	// OneReplica: the order of publishing, as long as the group has one replica.
	OneReplica

	// PerKey: the order of publishing per key, with any number of replicas.
	PerKey
)

// Topology is a broker that needs something declared: exchanges, queues, streams, topics.
// Publishers and subscribers derive what they need from the same [Wanted].
type Topology interface {
	// Plan compares what w needs with what the server has, and changes nothing.
	Plan(ctx context.Context, w Wanted) ([]Step, error)

	// Apply creates what is missing and, where the server allows it, adds what an existing thing
	// lacks. It never deletes, and never changes a setting that differs: that is a [Conflict] and
	// stays as it is. It returns what it found and did.
	Apply(ctx context.Context, w Wanted) ([]Step, error)
}

// Wanted is what a system publishes and receives.
type Wanted struct {
	Topics        []string                // topics that are published to
	Destinations  []string                // destinations that are sent to (Message.To)
	Subscriptions []consumer.Subscription // what consumer groups receive
}

// Step is one thing that a broker needs.
type Step struct {
	Kind   string // what it is called there: "exchange", "queue", "binding", "stream" …
	Name   string
	Action Action
	Detail string // what is created, added, or in conflict: the setting, what there is, what is wanted
}

// Action is what a [Step] needs, or, after Apply, what was done.
type Action string

const (
	Keep     Action = "keep"     // it exists as wanted
	Create   Action = "create"   // it is missing
	Add      Action = "add"      // it exists and lacks something that can be added
	Conflict Action = "conflict" // it exists with other settings; an operator must decide
	Ensure   Action = "ensure"   // the server does not tell whether it exists; Apply makes sure
)

// Explainer is a broker that can describe what a topic's route through it guarantees, from the
// live server where the server reports it.
type Explainer interface {
	// Explain returns the facts about topic, those of each aspect together.
	Explain(ctx context.Context, topic string) ([]guarantee.Fact, error)
}
