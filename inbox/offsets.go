package inbox

import "context"

// Partition identifies an ordered partition of a broker's topic as read by one consumer group. It
// uses the broker's names.
type Partition struct {
	Group  string
	Topic  string
	Number int32
}

// Holder is the member of a consumer group that processes a partition. The group's generation rises
// each time that partitions are assigned.
type Holder struct {
	Generation int32
	Member     string
}

// Progress is how far a partition is processed. A store keeps one row for each partition.
type Progress struct {
	// Next is the offset of the first message that is not yet processed.
	Next int64

	// RecordedBelow is the offset below which messages may have been processed by an inbox without
	// offsets: at Next and after it, their records show whether they were.
	RecordedBelow int64

	// Holder has taken the partition last. Nobody else changes Next.
	Holder
}

// Position is the position of a message received by the holder of a partition.
type Position struct {
	Partition
	Holder
	Offset int64

	// Once says that the message is stored at this offset only: the progress of the partition shows
	// whether it was processed, and no record is needed.
	Once bool
}

// OffsetStore is an [Inbox] that keeps the progress of partitions in the transactions in which
// their messages are processed. Stores may implement it; it is safe for concurrent use.
//
// Where [Record].At is set, ProcessOnce and BuryMessage first set Next past that offset, in their
// transaction. If Next is already past it they do nothing more: the message is a duplicate. If
// somebody else has taken the partition the error is [ErrFenced], as a conflict, and everything is
// rolled back, as it is with the outcome Conflict, after which the caller decides. The messages of
// a partition must be passed by rising offsets.
type OffsetStore interface {
	// ReadProgress returns what is stored of p, and false if nothing is.
	ReadProgress(ctx context.Context, p Partition) (Progress, bool, error)

	// TakePartition stores now if was is stored, with the same Next and Holder, or, if was is
	// nil, nothing; otherwise it returns false. It waits for a transaction that is changing Next.
	TakePartition(ctx context.Context, p Partition, was *Progress, now Progress) (bool, error)
}
