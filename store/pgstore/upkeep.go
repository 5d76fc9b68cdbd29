package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/outbox"
)

// OutboxUpkeep returns what a vacuum of the outbox has still to remove, and what keeps it from doing so. Like
// [Store.Condition] it needs the rights of a relay, and like [Store.Holders] it leaves out sessions that the
// role may not see.
func (s *Store[Tx]) OutboxUpkeep(ctx context.Context) (outbox.Upkeep, error) {
	c, err := s.Condition(ctx)
	if err != nil {
		return outbox.Upkeep{}, err
	}
	holders, err := s.Holders(ctx, 0, 0)
	if err != nil {
		return outbox.Upkeep{}, err
	}
	return upkeepOf(c, holders), nil
}

func upkeepOf(c Condition, holders []Holder) outbox.Upkeep {
	u := outbox.Upkeep{DeadRows: c.DeadRows, ArchiveDays: c.DaysReady, Held: make(map[string]int64)}
	for _, kind := range []HolderKind{HolderSession, HolderPrepared, HolderSlot, HolderStandby} {
		u.Held[string(kind)] = 0
	}
	for i := range holders {
		h := &holders[i]
		u.Held[string(h.Kind)] = max(u.Held[string(h.Kind)], h.Transactions)
		if h.Enqueued {
			u.OldestEnqueued = max(u.OldestEnqueued, h.Age)
		} else {
			u.OldestOpen = max(u.OldestOpen, h.Age)
		}
	}
	return u
}
