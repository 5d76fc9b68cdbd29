package contract

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill/inbox"
)

// OffsetSubscriber is a [Subscriber] to a broker that keeps messages in partitions, at rising
// offsets, and assigns partitions to the members of a consumer group.
type OffsetSubscriber interface {
	Subscriber

	// SubscribeAt is like Subscribe, but calls take for each partition that is assigned to this member,
	// which returns where to begin with it. Each partition has at most one unsettled delivery: the next
	// one is delivered after Ack, and after Retry the same one is delivered again before all behind it.
	// If take returns an unavailable error or a conflict it is called again; any other error ends
	// SubscribeAt. take ends early when its ctx ends, and is called by one goroutine at a time.
	SubscribeAt(ctx context.Context, prefetch int, take func(ctx context.Context, c PartitionClaim) (Progress, error), deliver func(PlacedDelivery)) error
}

// PlacedDelivery is a delivery of an [OffsetSubscriber].
type PlacedDelivery interface {
	Delivery

	// Place returns the offset of the message, and how far its partition was processed when it was
	// taken.
	Place() Place
}

// Place is the partition and offset of a delivery.
type Place struct {
	inbox.Partition
	Offset        int64
	Taken         Progress // what take returned for the partition
	Transactional bool     // published in a transaction of the broker
}

// PartitionClaim is a partition that a broker has assigned to a member of a group.
type PartitionClaim struct {
	inbox.Partition
	inbox.Holder

	Committed int64 // the group's offset; negative if it has none
	Start     int64 // where to begin without one
	End       int64 // behind the last message

	// Current asks the broker whether the member belongs to the group now.
	Current func(ctx context.Context) (bool, error)

	// HasMessages asks the broker whether the partition holds messages from offset from (inclusive) to
	// offset to (exclusive): the group's offset may be ahead because of entries that are no messages, such
	// as the ends of transactions. It returns true if the broker does not know.
	HasMessages func(ctx context.Context, from, to int64) (bool, error)
}

// Progress is how far a partition is processed. A store keeps one row for each partition.
type Progress struct {
	// Next is the offset of the first message that is not yet processed.
	Next int64

	// RecordedBelow is the offset below which messages may have been processed by an inbox without
	// offsets: at Next and after it, their records show whether they were.
	RecordedBelow int64

	// Holder has taken the partition last. Nobody else changes Next.
	inbox.Holder
}

// OffsetStore is an [Inbox] that keeps the progress of partitions in the transactions in which
// their messages are processed. Stores may implement it; it is safe for concurrent use.
//
// Where inbox.Record.At is set, ProcessOnce and BuryMessage first set Next past that offset, in their
// transaction. If Next is already past it they do nothing more: the message is a duplicate. If
// somebody else has taken the partition the error is [ErrFenced], as a conflict, and everything is
// rolled back, as it is with the outcome Conflict, after which the caller decides. The messages of
// a partition must be passed by rising offsets.
type OffsetStore interface {
	// ReadProgress returns what is stored of p, and false if nothing is.
	ReadProgress(ctx context.Context, p inbox.Partition) (Progress, bool, error)

	// TakePartition stores now if was is stored, with the same Next and Holder, or, if was is
	// nil, nothing; otherwise it returns false. It waits for a transaction that is changing Next.
	TakePartition(ctx context.Context, p inbox.Partition, was *Progress, now Progress) (bool, error)
}

// ErrFenced reports that another member of the group has taken the message's partition and
// continues with it. What was done for the message was rolled back.
var ErrFenced = errors.New("inbox: the partition was taken by another member of the group")
