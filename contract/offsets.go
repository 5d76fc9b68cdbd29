package contract

import (
	"context"

	"github.com/waybill-go/waybill/inbox"
)

// OffsetSubscriber is a [Subscriber] to a broker whose messages stand in partitions, at rising
// offsets, and are given to the members of a consumer group by partition.
type OffsetSubscriber interface {
	Subscriber

	// SubscribeAt is Subscribe, but that take is called for each partition that is given to
	// this member, and says where to begin with it. Of one partition one delivery is unsettled
	// at a time: the next one is delivered after Ack, and one that Retry was called for is
	// delivered again before all behind it. If take returns an unavailable error or a conflict
	// it is called again; any other ends SubscribeAt. take ends early when its ctx ends, and
	// is called by one goroutine at a time.
	SubscribeAt(ctx context.Context, prefetch int, take func(ctx context.Context, c PartitionClaim) (inbox.Progress, error), deliver func(PlacedDelivery)) error
}

// PlacedDelivery is a delivery of an [OffsetSubscriber].
type PlacedDelivery interface {
	Delivery

	// Place says where the message stands, and how far its partition was processed when it was
	// taken.
	Place() Place
}

// Place says where a delivery stands.
type Place struct {
	inbox.Partition
	Offset        int64
	Taken         inbox.Progress // what take returned for the partition
	Transactional bool           // published in a transaction of the broker
}

// PartitionClaim is a partition that a broker has given to a member of a group.
type PartitionClaim struct {
	inbox.Partition
	inbox.Holder

	Committed int64 // the group's offset; negative if it has none
	Start     int64 // where to begin without one
	End       int64 // behind the last message

	// Current asks the broker whether the member is one of the group's now.
	Current func(ctx context.Context) (bool, error)

	// HasMessages asks the broker whether the partition holds messages from offset from up to, and without,
	// offset to: the group's offset may be ahead because of entries that are none, as the ends of
	// transactions. True if the broker cannot tell.
	HasMessages func(ctx context.Context, from, to int64) (bool, error)
}
