// Package observe holds the [Observer], by which a program sees what writers, relays and consumers
// do. [LogTo] returns one that logs; packages promobserve and otelobserve have those for metrics and
// traces.
package observe

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// Op names what an [Event] reports. Logs, metrics and docs use the same words.
type Op string

const (
	OpEnqueue   Op = "enqueue"    // messages were stored in a transaction, which may still roll back; or Err says why not
	OpClaim     Op = "claim"      // committed messages were read from the store
	OpPublish   Op = "publish"    // a message was, or was not, accepted by the broker
	OpSettle    Op = "settle"     // the outcomes of a batch were recorded
	OpRetry     Op = "retry"      // a message waits for its next attempt
	OpDead      Op = "dead"       // a message became a dead letter
	OpFailed    Op = "failed"     // as OpDead, with dead letters disabled
	OpPause     Op = "pause"      // a destination is unavailable
	OpResume    Op = "resume"     // a destination is available again
	OpLanes     Op = "lanes"      // the lanes that a relay owns have changed; Count says how many
	OpLeaseLost Op = "lease_lost" // a settlement was refused because a lane, or the key of a message, had changed hands
	OpHandle    Op = "handle"     // a handler ran
	OpDuplicate Op = "duplicate"  // a message was skipped because the inbox holds it, or not stored because its id is taken
	OpConflict  Op = "conflict"   // a message came whose inbox key was processed with another payload
	OpRepeat    Op = "repeat"     // a transaction clashed with another one, or a batch failed, and is repeated at once
	OpBusy      Op = "busy"       // a delivery came too early, or while the message is being handled, and was deferred
	OpUnleased  Op = "unleased"   // a message is handled without a lease because the lease store does not answer
	OpOvertaken Op = "overtaken"  // a late refusal let later messages of the key overtake it
	OpLoop      Op = "loop"       // one round of a background loop ended; Err is nil or why not
	OpFire      Op = "fire"       // an occurrence of a recurring schedule was enqueued; Delay is how late
	OpSkip      Op = "skip"       // occurrences were skipped, by overlap or because they were too late
	OpSaga      Op = "saga"       // an instance of a saga was changed, in a transaction that may still roll back; Name is the saga, Status that of the instance
	OpIgnore    Op = "ignore"     // a saga, Name, has ignored a message; Status says why: missing, ended or stale
	OpLateReply Op = "late_reply" // a reply was dropped because no request waits for it: it came late, or twice; Name is the client
	OpServe     Op = "serve"      // the inbox service has answered a request; Err is nil unless the service itself failed
	OpRequeue   Op = "requeue"    // a dead letter was requeued
	OpCleanup   Op = "cleanup"    // rows past their retention were removed, or Err says why not; Count of rows

	OpAddPartitions  Op = "add_partitions"  // the archive has room for further days; Count of days
	OpDropPartitions Op = "drop_partitions" // days past the retention were removed as a whole; Count of days

	// OpDedupExpired reports that messages were accepted by a broker later after an unanswered attempt
	// than the broker remembers deduplication ids: if that attempt had arrived, the broker holds them
	// twice. Duration is the longest time since such an attempt began. An attempt by another relay, or
	// by this one before its start or before it lost its lease, is not known.
	OpDedupExpired Op = "dedup_expired"

	// OpBackPressure reports that a relay claims nothing new because too much is parked
	// behind dead letters (Err says which limit), or that it claims again (Err is nil).
	// Count is the number of messages parked.
	OpBackPressure Op = "back_pressure"
)

// Event is one thing that happened. Fields that do not apply are empty.
type Event struct {
	Op          Op
	Name        string         // the reporting relay, consumer, loop or request client, or the schedule or saga; "" for a writer
	Consumer    string         // the consumer's name if a consumer reports
	Loop        string         // of OpLoop: as Name, without the name of the relay's node
	Destination string         // the relay's destination, "" for the only one
	Topic, Type string         // of the message or messages, if all share one
	IDs         []string       // ids of the messages; valid only during the call
	Count       int            // number of messages, lanes, rows or days
	Attempt     int            // 1 for the first
	Delay       time.Duration  // until the next attempt; of OpFire, since the planned time
	Duration    time.Duration  // of the operation
	Age         time.Duration  // of OpHandle: since the message was enqueued, or was to be delivered
	Reason      waybill.Reason // of a dead letter
	Operation   string         // of OpServe: the requested operation, such as try-begin
	Status      string         // of OpServe: the answer, such as Acquired, or the HTTP code; of OpSaga and OpIgnore see there
	Err         error          // nil if it went well
}

// Observer receives events, for logs, metrics and traces. Its methods are called on the path of
// messages, by several goroutines at once: they must be quick and must not block. They must not
// retain payloads and header values.
type Observer interface {
	// Start is called before an operation on one message or batch: [OpEnqueue] with messages
	// that are complete, not checked and not stored, [OpPublish], or [OpHandle]. The messages
	// belong to the operation. An observer may set TraceParent and TraceState of a message without
	// TraceParent, which are stored, or sent, with it; it must change nothing else and retain no
	// message. For [OpServe] the message has only the operation, as its Type, and the trace context of
	// the request.
	//
	// The operation runs under the returned context, except for what a commit sends; [NameFrom] returns
	// the name of its relay or consumer. end is called once, after the operation; it gets a
	// [BatchError] for a batch that was published only in part.
	Start(ctx context.Context, op Op, msgs ...*waybill.Message) (_ context.Context, end func(error))

	// Observe is called after something happened.
	Observe(ctx context.Context, e Event)
}

// Observers returns an observer that passes everything on to each of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (os observers) Start(ctx context.Context, op Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	ends := make([]func(error), len(os))
	for i, o := range os {
		ctx, ends[i] = o.Start(ctx, op, msgs...)
	}
	return ctx, func(err error) {
		for _, end := range ends {
			end(err)
		}
	}
}

func (os observers) Observe(ctx context.Context, e Event) {
	for _, o := range os {
		o.Observe(ctx, e)
	}
}
