package rabbitbroker

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	deliveryLimitArg        = "x-delivery-limit"
	deadLetterExchangeArg   = "x-dead-letter-exchange"
	deadLetterRoutingKeyArg = "x-dead-letter-routing-key"
	deadLetterStrategyArg   = "x-dead-letter-strategy"
)

// noDeliveryLimit is how often a quorum queue lets a message be returned before it drops it.
// RabbitMQ 4 drops after 20 times by default; consumers of this project count failures themselves.
// -1 would mean "any number" there, and on 3.10 "drop at the first".
const noDeliveryLimit int32 = math.MaxInt32

// version is the version of a server, which decides what queues it supports. The zero value is
// that of a server that has classic queues only.
type version struct{ major, minor int }

// The versions that queue features depend on.
var (
	hasQuorumQueues  = version{3, 8}
	hasAtLeastOnce   = version{3, 10} // quorum queues whose messages can expire, and are handed over at least once
	limitsDeliveries = version{4, 0}
)

// versionOf reads what a server reports when a connection is made. About products other than
// RabbitMQ nothing is known.
func versionOf(properties amqp.Table) version {
	if properties["product"] != "RabbitMQ" {
		return version{}
	}
	text, _ := properties["version"].(string)
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var v version
	var err error
	if v.major, err = strconv.Atoi(major); err != nil {
		return version{}
	}
	if v.minor, err = strconv.Atoi(minor); err != nil {
		return version{}
	}
	return v
}

func (v version) atLeast(other version) bool {
	return cmp.Or(cmp.Compare(v.major, other.major), cmp.Compare(v.minor, other.minor)) >= 0
}

// queueWays are the arguments to declare a queue for messages with, the wanted ones first. The
// others are for a queue that exists already, created by an older release or by somebody else, and
// for a server that refuses the first.
func (t topology) queueWays() []amqp.Table {
	quorum := t.quorumQueue()
	unlimited := maps.Clone(quorum)
	unlimited[deliveryLimitArg] = noDeliveryLimit
	switch {
	case t.queueType == QuorumQueue:
		return []amqp.Table{unlimited, quorum}
	case t.wantedType() == QuorumQueue:
		return []amqp.Table{unlimited, quorum, t.classicQueue()}
	}
	return []amqp.Table{t.classicQueue()}
}

// wantedType is the type of queues that do not exist yet.
func (t topology) wantedType() string {
	switch {
	case t.queueType != "":
		return t.queueType
	case t.server.atLeast(hasQuorumQueues):
		return QuorumQueue
	}
	return ClassicQueue
}

func (t topology) classicQueue() amqp.Table {
	args := amqp.Table{amqp.QueueTypeArg: ClassicQueue}
	if t.singleActive {
		args[amqp.SingleActiveConsumerArg] = true
	}
	if t.deadLetters != "" {
		args[deadLetterExchangeArg] = t.deadLetters
	}
	return args
}

func (t topology) quorumQueue() amqp.Table {
	args := t.classicQueue()
	args[amqp.QueueTypeArg] = QuorumQueue
	if t.deadLetters != "" && t.server.atLeast(hasAtLeastOnce) {
		return atLeastOnce(args)
	}
	return args
}

// retryMargin is how long a retry queue outlives its messages. The server deletes a queue that was
// not declared for that time, with everything in it; so a queue is declared before each message,
// and no message may enter it later than that. See retryTimeout.
const retryMargin = time.Hour

// retryPart is the queue in which messages wait for ttl before the server dead-letters them to
// queue, and nowhere else. It is of queueType, that of queue, where the server supports such retry
// queues; if the type may vary, the other one will do.
func (t topology) retryPart(queue, queueType string, ttl time.Duration) part {
	classic := amqp.Table{
		amqp.QueueTypeArg:       ClassicQueue,
		amqp.QueueMessageTTLArg: ttl.Milliseconds(),
		amqp.QueueTTLArg:        (ttl + retryMargin).Milliseconds(),
		deadLetterExchangeArg:   amqp.DefaultExchange,
		deadLetterRoutingKeyArg: queue,
	}
	quorum := atLeastOnce(classic)
	p := part{kind: queuePart, name: retryQueue(queue, ttl)}
	switch {
	case t.queueType == QuorumQueue:
		p.ways = []amqp.Table{quorum}
	case t.queueType == ClassicQueue || !t.server.atLeast(hasAtLeastOnce):
		p.ways = []amqp.Table{classic}
	case queueType == ClassicQueue:
		p.ways = []amqp.Table{classic, quorum}
	default:
		p.ways = []amqp.Table{quorum, classic}
	}
	return p
}

// atLeastOnce returns args for a quorum queue that keeps a message until the target queue has it.
// No other type does.
func atLeastOnce(args amqp.Table) amqp.Table {
	args = maps.Clone(args)
	args[amqp.QueueTypeArg] = QuorumQueue
	args[deadLetterStrategyArg] = "at-least-once"
	args[amqp.QueueOverflowArg] = amqp.QueueOverflowRejectPublish // required by the strategy
	return args
}

// declareQueue declares the queue with the first arguments that the server does not refuse, and
// returns those. The error is that of the last arguments.
func (p part) declareQueue(d *declarer) (made amqp.Table, err error) {
	var tried amqp.Table
	argument := "" // that the server refused
	for _, args := range p.ways {
		if tried != nil && args[argument] == tried[argument] {
			continue // and would refuse again
		}
		err = d.on(func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(p.name, true, false, false, false, args)
			return err
		})
		if err == nil {
			return args, nil
		}
		if argument = refusedArgument(err); argument == "" {
			return nil, err
		}
		tried = args
	}
	return nil, err
}

var argumentRefused = regexp.MustCompile(`^PRECONDITION_FAILED - (?:inequivalent|invalid) arg '([^']+)'`)

// refusedArgument returns the argument for which the server refused to declare a queue, "" if it
// was another reason.
func refusedArgument(err error) string {
	if refusal := refusedWith(err, amqp.PreconditionFailed); refusal != nil {
		if found := argumentRefused.FindStringSubmatch(refusal.Reason); found != nil {
			return found[1]
		}
	}
	return ""
}

// remark returns what an operator should know about an existing queue that was declared
// differently from new ones, "" if nothing.
func (t topology) remark(made amqp.Table) string {
	switch {
	case made[amqp.QueueTypeArg] != t.wantedType():
		return "is a classic queue and stays one; new ones are quorum queues"
	case made[amqp.QueueTypeArg] == QuorumQueue && made[deliveryLimitArg] == nil && t.server.atLeast(limitsDeliveries):
		return "was made without x-delivery-limit: the server drops what was given back 20 times, unless a policy says otherwise"
	}
	return ""
}
