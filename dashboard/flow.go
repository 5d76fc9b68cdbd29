package dashboard

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/inspect"
)

// flowSample is how many of the latest published messages are read, a cost that does not
// depend on their total number.
const flowSample = 1000

// flow is how many messages are published per minute. It is derived from the latest that
// the store keeps: counts of all of them fall when old ones are removed.
type flow struct {
	PerMinute int64
	Known     bool // the store keeps published messages, and has some
}

func (d *Dashboard) readFlow(ctx context.Context) (flow, error) {
	latest, err := d.all.outbox.OutboxMessages(ctx, inspect.Filter{Status: inspect.Published, Limit: flowSample})
	if err != nil {
		return flow{}, err
	}
	return flowOf(latest, time.Now()), nil
}

// flowOf counts those of the last minute. If the sample does not reach that far back, it
// extrapolates to a minute.
func flowOf(latest []inspect.MessageState, now time.Time) flow {
	f := flow{Known: len(latest) > 0}
	span := time.Duration(0)
	for _, s := range latest {
		if s.PublishedAt == nil || now.Sub(*s.PublishedAt) > time.Minute {
			return f
		}
		f.PerMinute++
		span = now.Sub(*s.PublishedAt)
	}
	if len(latest) >= flowSample {
		f.PerMinute = int64(float64(f.PerMinute) * time.Minute.Seconds() / max(span, time.Millisecond).Seconds())
	}
	return f
}
