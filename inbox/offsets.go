package inbox

import "context"

// Partition is a part of a broker's topic that has an order of its own, as one consumer group
// reads it. It has the broker's names.
type Partition struct {
	Group  string
	Topic  string
	Number int32
}

// Holder is the member of a consumer group that goes on with a partition. The group's generation
// rises each time that partitions are given out.
type Holder struct {
	Generation int32
	Member     string
}

// Progress is how far a partition is processed. A store keeps one row of it for each partition.
type Progress struct {
	// Next is the offset of the first message that is not done with.
	Next int64

	// RecordedBelow is the offset before which messages may have been processed by an inbox
	// alone: what says so of those at Next and after it are their records.
	RecordedBelow int64

	// Holder is who has taken the partition last. Nobody else moves Next.
	Holder
}

// Position says where a message stands that was received by the holder of a partition.
type Position struct {
	Partition
	Holder
	Offset int64

	// Once says that the message stands nowhere else: that it was processed is told by the
	// progress of the partition, and needs no record.
	Once bool
}

// OffsetStore is an [Inbox] that keeps the progress of partitions in the transactions in which
// their messages are processed. Stores may implement it; it is safe for concurrent use.
//
// Where [Record].At is set, ProcessOnce and BuryMessage first set Next behind that offset, in
// their transaction. If Next is behind it already they do nothing more: the message is a
// duplicate. If somebody else has taken the partition the error is [ErrFenced], as a conflict,
// and all is rolled back, as it is with the outcome Conflict, after which the caller decides.
// The messages of a partition must be passed by rising offsets.
type OffsetStore interface {
	// ReadProgress returns what is stored of p, and false if nothing is.
	ReadProgress(ctx context.Context, p Partition) (Progress, bool, error)

	// TakePartition stores now if was is stored, with the same Next and Holder, or, if was is
	// nil, nothing; otherwise it returns false. It waits for a transaction that is moving Next.
	TakePartition(ctx context.Context, p Partition, was *Progress, now Progress) (bool, error)
}
