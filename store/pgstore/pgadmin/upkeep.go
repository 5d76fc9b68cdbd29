package pgadmin

import (
	"context"

	"github.com/waybill-go/waybill/inspect"
)

// OutboxUpkeep returns what a vacuum of the outbox has still to remove, and what keeps it from doing so. Like
// [Admin.Condition] it needs the rights of a relay, and like [Admin.Holders] it leaves out sessions that the
// role may not see.
func (a *Admin) OutboxUpkeep(ctx context.Context) (inspect.Upkeep, error) {
	c, err := a.Condition(ctx)
	if err != nil {
		return inspect.Upkeep{}, err
	}
	holders, err := a.Holders(ctx, 0, 0)
	if err != nil {
		return inspect.Upkeep{}, err
	}
	return upkeepOf(c, holders), nil
}

func upkeepOf(c Condition, holders []Holder) inspect.Upkeep {
	u := inspect.Upkeep{DeadRows: c.DeadRows, ArchiveDays: c.DaysReady, Held: make(map[string]int64)}
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
