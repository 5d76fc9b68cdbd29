package consumer

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// OffsetMode says whether a consumer keeps the offsets of its broker in the database of its inbox:
// one row for each partition, updated in the handler's transaction. Offsets alone do not detect a
// message that was published twice, because the copy has another offset; so each mode combines them
// with something that does.
type OffsetMode int

const (
	// OffsetsOff leaves offsets to the broker.
	OffsetsOff OffsetMode = iota

	// OffsetsBesideInbox keeps offsets, and also the usual record of each message.
	OffsetsBesideInbox

	// OffsetsBehindExactlyOnce keeps offsets, and no records of messages that were published in
	// a transaction of the broker. It declares that all of these on the consumer's topics were
	// published by exactly-once relays, each message at one offset. What was not published in a
	// transaction has its record.
	OffsetsBehindExactlyOnce
)

// keepOffsets makes a receiver keep offsets in box, if its configuration says so.
func (c *receiver) keepOffsets(box any) error {
	if c.cfg.Offsets == OffsetsOff {
		return nil
	}
	sub, ok := c.sub.(contract.OffsetSubscriber)
	if !ok {
		return invalid("Offsets", "is set, but the subscriber is no OffsetSubscriber: its broker has no offsets to keep")
	}
	store, ok := box.(contract.OffsetStore)
	switch {
	case !ok:
		return invalid("Offsets", "is set, but the inbox is no contract.OffsetStore")
	case c.cfg.BatchSize > 1:
		return invalid("BatchSize", "is %d; with Offsets the messages of a partition are handled one by one", c.cfg.BatchSize)
	case c.cfg.Offsets == OffsetsBehindExactlyOnce && c.cfg.OnConflict != ConflictBury:
		return invalid("OnConflict", "is set, but OffsetsBehindExactlyOnce keeps no payloads to compare")
	}
	c.subscribe = func(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
		take := func(ctx context.Context, claim contract.PartitionClaim) (contract.Progress, error) {
			return c.takePartition(ctx, store, claim)
		}
		return sub.SubscribeAt(ctx, prefetch, take, func(d contract.PlacedDelivery) { deliver(d) })
	}
	return nil
}

// takePartition takes over a partition in the store, and returns where to continue. It fences off
// the previous holder.
func (c *receiver) takePartition(ctx context.Context, store contract.OffsetStore, claim contract.PartitionClaim) (contract.Progress, error) {
	for {
		now, taken, err := c.tryTake(ctx, store, claim)
		if (waybill.IsUnavailable(err) || waybill.IsConflict(err)) && ctx.Err() == nil {
			c.observe(ctx, observe.Event{Op: observe.OpPause, Topic: claim.Topic, Delay: outageWait, Err: err})
		}
		if taken || err != nil {
			return now, err
		}
	}
}

// tryTake returns false if the progress has changed meanwhile.
func (c *receiver) tryTake(ctx context.Context, store contract.OffsetStore, claim contract.PartitionClaim) (now contract.Progress, taken bool, err error) {
	var was *contract.Progress
	err = c.ask(ctx, func(ctx context.Context) error {
		stored, found, err := store.ReadProgress(ctx, claim.Partition)
		if found {
			was = &stored
		}
		return err
	})
	if err != nil {
		return now, false, err
	}
	if now, err = takeOver(ctx, was, claim); err != nil { // it may ask the broker, which must not count as the store's time
		return now, false, err
	}
	err = c.ask(ctx, func(ctx context.Context) (err error) {
		taken, err = store.TakePartition(ctx, claim.Partition, was, now)
		return err
	})
	return now, taken, err
}

// takeOver returns the progress with which the claim's holder continues from was, which is nil if
// nothing is stored. If the group has committed messages that are not stored, other members have
// processed them without the store, and may have done so with what the partition holds now.
func takeOver(ctx context.Context, was *contract.Progress, claim contract.PartitionClaim) (contract.Progress, error) {
	now := contract.Progress{Next: claim.Committed, RecordedBelow: claim.End, Holder: claim.Holder}
	switch {
	case was == nil:
		if claim.Committed < 0 {
			now.Next = claim.Start
		}
		return now, nil
	case was.Next > claim.End:
		return now, waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf(
			"partition %d of %q ends at offset %d, and group %q has its progress at %d in the database: the topic was made again, or has lost messages; remove the partition's row from consumer_offsets to start over",
			claim.Number, claim.Topic, claim.End, claim.Group, was.Next))
	case was.Generation > claim.Generation:
		if err := current(ctx, claim); err != nil {
			return now, err
		}
	}
	if claim.Committed <= was.Next {
		now.Next, now.RecordedBelow = was.Next, was.RecordedBelow
		return now, nil
	}
	others, err := claim.HasMessages(ctx, was.Next, claim.Committed)
	if err != nil {
		return now, waybill.UnavailableError(fmt.Errorf("ask for messages of topic %q: %w", claim.Topic, err))
	}
	if !others {
		now.RecordedBelow = was.RecordedBelow
	}
	return now, nil
}

// current returns nil if the member belongs to the group, although the partition was held at a
// later generation: the group was removed since, and its generations start over.
func current(ctx context.Context, claim contract.PartitionClaim) error {
	is, err := claim.Current(ctx)
	switch {
	case err != nil:
		return waybill.UnavailableError(fmt.Errorf("ask for the members of group %q: %w", claim.Group, err))
	case !is:
		return waybill.ConflictError(contract.ErrFenced)
	}
	return nil
}

// position returns the position of a delivery, nil if its offset is not kept.
func (c *receiver) position(d *held) *inbox.Position {
	if c.cfg.Offsets == OffsetsOff {
		return nil
	}
	placed, ok := d.Delivery.(contract.PlacedDelivery)
	if !ok {
		return nil
	}
	p := placed.Place()
	once := c.cfg.Offsets == OffsetsBehindExactlyOnce && p.Transactional && p.Offset >= p.Taken.RecordedBelow
	return &inbox.Position{Partition: p.Partition, Holder: p.Taken.Holder, Offset: p.Offset, Once: once}
}
