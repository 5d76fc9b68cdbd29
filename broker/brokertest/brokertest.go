// Package brokertest is the suite that every broker adapter passes. It uses a broker only through [broker.Broker] and
// the contracts within it, [relay.Publisher] and [contract.Subscriber], and what a broker cannot do is declared in
// [Features], never skipped by the adapter's own tests.
//
// The suite sends real messages over real connections. It waits for conditions with a
// deadline and uses names that are unique per run, so one server may serve several runs.
package brokertest

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill/broker"
)

// Features says what a broker cannot do, or does beyond the common contract, so that a test is skipped or changed by
// declaration. The zero value stands for a broker that can do everything.
type Features struct {
	// NoFanout says that a topic reaches one consumer group only.
	NoFanout bool

	// NoUnroutable says that the broker cannot tell that nothing will receive a message.
	NoUnroutable bool

	// Deduplicates says that the broker drops a message whose DedupID it has seen.
	Deduplicates bool

	// MaxPayload is the largest payload in bytes that the broker accepts in a message without headers; twice that size
	// is refused as too large. 0: no limit to test.
	MaxPayload int

	// Synchronous says that the broker stores nothing: Send returns when the message has been acknowledged, and the
	// sender has to send again what is to be retried. Only the tests of the list synchronous are run then.
	Synchronous bool

	// LapseAfter is how long the broker waits for the settlement of a delivery before it redelivers the message
	// although the connection is still open. 0: as long as it takes.
	LapseAfter time.Duration

	// Repeats says that the adapter resends over its next connection what was not confirmed, or not yet written, when
	// the previous one ended, so that a single disconnect may go unnoticed.
	Repeats bool

	// Partitioned says that replicas of a group share partitions instead of messages, and that the broker remembers a
	// group's offset in each, not which messages are done: messages acknowledged after an unsettled one are redelivered
	// with it, and messages that are held count as waiting. A consumer that is disconnected keeps its partitions, and
	// the messages that it holds.
	Partitioned bool

	// CountsHeld says that the broker counts messages that a consumer holds as waiting.
	CountsHeld bool

	// NoReplies says that the broker does not implement request.ReplyOpener.
	NoReplies bool

	// LagHasMarks says that Lag also counts records that are not messages, such as the ends of transactions, until they
	// are read.
	LagHasMarks bool
}

// Harness connects the suite to one broker.
type Harness struct {
	Name     string
	Features Features

	// Open returns a fresh connection to the same server. The suite closes it. Required.
	Open func(t *testing.T) broker.Broker

	// Patient is Open for a broker that waits an hour for the settlement of a delivery. Required
	// with Features.LapseAfter, unless the test's own clock decides, see Elapse.
	Patient func(t *testing.T) broker.Broker

	// Faulty returns a network to the same server that the suite can make fail, and a function that opens a fresh
	// connection through it. The suite closes the connection. Optional; without it network faults are not tested, as is
	// right for a broker that has no network.
	Faulty func(t *testing.T) (Faults, func() broker.Broker)

	// Unroutable is a topic that the broker refuses as unroutable. Optional; by default the suite uses a name that
	// nobody has subscribed to.
	Unroutable string

	// PublishRaw publishes to a topic with exactly the given CloudEvents attributes, named without the protocol's
	// prefix, as a producer of another project would: bypassing the adapter and its checks. Required.
	PublishRaw func(t *testing.T, topic string, payload []byte, attributes map[string]string)

	// Elapse lets d pass for the deliveries that the connections of one test hold, where the broker waits for their
	// settlement. Optional; by default time passes by itself.
	Elapse func(t *testing.T, d time.Duration)

	// Goroutines are substrings of the stacks of goroutines that the adapter's connection
	// starts, such as "github.com/nats-io/nats.go". Those of the adapter itself are known.
	// Optional.
	Goroutines []string
}

// Run runs the suite as subtests of t. The subtests run in parallel with each other, except for the one that counts
// goroutines, which comes first; so t may call its Parallel only after Run.
func Run(t *testing.T, h Harness) {
	for _, test := range tests(h) {
		if test.leftOut || h.Features.Synchronous && !slices.Contains(synchronous, test.situation) {
			continue
		}
		t.Run(test.situation, func(t *testing.T) {
			t.Parallel()
			test.run(newEnv(t, h))
		})
	}
	if h.Features.Synchronous {
		return
	}
	t.Run("no goroutine left behind", func(t *testing.T) { testGoroutines(newEnv(t, h)) })
}

type test struct {
	situation string
	run       func(*env)
	leftOut   bool // the broker has declared that it cannot do this
}

func tests(h Harness) []test {
	f, steady := h.Features, h.Faulty == nil
	return []test{
		{"message with every field", testEveryField, false},
		{"message with few fields", testFewFields, false},
		{"structured content mode", testStructured, false},
		{"payloads of any bytes", testPayloads, false},
		{"headers of any text", testHeaders, false},
		{"message at the limits", testLimits, false},
		{"idempotency key in a header", testKeyHeader, false},
		{"message without an id", testNoID, false},
		{"message with a broken attribute", testBrokenAttribute, false},

		{"empty batch", testEmptyBatch, false},
		{"500 messages of one key", testOrder, false},
		{"several batches at once", testConcurrentBatches, false},
		{"payload changed after the wait", testOwnership, false},
		{"one unroutable message in a hundred", testOneUnroutable, f.NoUnroutable},
		{"one oversized message in a hundred", testOneTooLarge, f.MaxPayload == 0},
		{"deadline already passed", testDeadlinePassed, false},
		{"publisher closed", testPublishClosed, false},
		{"first attempt taken for a duplicate", testSwallowed, !f.Deduplicates},
		{"resent after an unknown outcome", testResent, false},
		{"published again in a new life", testNewLife, false},
		{"deduplication window told to the relay", testDedupWindow, false},
		{"one id from two sources", testIDPerSource, false},

		{"published to two groups", testFanout, f.NoFanout},
		{"sent to one destination", testSentTo, false},
		{"topics and a destination in one group", testSeveralAddresses, f.NoFanout},
		{"two subscribers of one group", testShare, f.Partitioned},
		{"one partition and two subscribers of one group", testShareNothing, !f.Partitioned},
		{"names with punctuation", testNames, f.NoFanout},

		{"acknowledged message", testAck, false},
		{"connection closed before the settlement", testRedeliver, false},
		{"retry with a delay", testRetryDelay, false},
		{"retry does not hold up others", testRetryFlow, false},
		{"retry in one of two groups", testRetryGroup, f.NoFanout},
		{"retry at once", testRetryAtOnce, false},
		{"extended while worked on", testExtend, false},
		{"prefetch reached", testPrefetch, false},
		{"what waits behind the prefetch", testLag, false},
		{"prefetch smaller than the number of topics", testPrefetchOfOne, false},

		{"connection cut before the confirm", testCutBeforeConfirm, steady || f.Repeats},
		{"half-open connection", testHalfOpen, steady},
		{"slow confirms", testSlowConfirms, steady},
		{"server away, and back", testServerAway, steady},
		{"opened while the server is away", testOpenedAway, steady},
		{"one message in a hundred that ends its connection", testPoison, steady},
		{"every connection ends for a while", testOutage, steady},
		{"consumer cut with messages in flight", testConsumerCut, steady || f.Partitioned},

		{"replies to two destinations", testReplies, f.NoReplies},
		{"reply to a destination that is gone", testRepliesGone, f.NoReplies},
		{"reply destination on a closed connection", testRepliesUnavailable, f.NoReplies},
		{"reply while the connection is cut", testRepliesCut, f.NoReplies || steady},

		{"stopped with messages not passed on", testStopBacklog, false},
		{"stopped while messages stream in", testStopInFlow, false},
		{"consumer ended with messages not begun", testConsumerEnded, false},
		{"subscriber used again", testSubscribeAgain, false},
		{"subscription without a group", testInvalidSubscription, false},
		{"broker reachable and closed", testPing, false},
	}
}
