package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

// adviceOnSetBack is the advice for when the store's clock was set back.
const adviceOnSetBack = "what the store had set a time for before waits until then: retries, delayed messages, leases of consumers; see docs/guarantees.md#clocks"

// checkArchiveClock checks whether the newest published message has a time in the future by the store's clock, which
// was then set back. Otherwise it returns nothing.
func (t *tables) checkArchiveClock(ctx context.Context) []finding {
	newest, err := t.store.OutboxMessages(ctx, inspect.Filter{Status: inspect.Published, Limit: 1})
	if err != nil {
		return t.unread("clock", err)
	}
	facts, err := t.store.Facts(ctx) // read after the message: its clock has advanced since
	if err != nil {
		return t.unread("clock", err)
	}
	if len(newest) == 0 || newest[0].PublishedAt == nil || facts.Clock.IsZero() {
		return nil
	}
	return checkSetBack("published", newest[0].PublishedAt.Sub(facts.Clock))
}

// checkPendingClock does the same for messages that wait for a relay.
func checkPendingClock(stats []inspect.Stats) []finding {
	var ahead time.Duration
	for _, s := range stats {
		if s.Status == inspect.Pending {
			ahead = max(ahead, -s.Oldest)
		}
	}
	return checkSetBack("enqueued", ahead)
}

func checkSetBack(what string, ahead time.Duration) []finding {
	if ahead <= clockLimit {
		return nil
	}
	return []finding{warning("clock", fmt.Sprintf("the store's was set back: a message was %s %s from now", what, ops.Age(ahead)), adviceOnSetBack).on("set back, " + what)}
}
