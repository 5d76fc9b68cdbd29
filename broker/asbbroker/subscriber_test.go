package asbbroker

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/handover"
)

// TestStop_GivesBackByOneDeadline: a service that does not answer holds up a stop once, not once for each message.
func TestStop_GivesBackByOneDeadline(t *testing.T) {
	r := &run{broker: &Broker{ctx: t.Context()}, queue: handover.New(10, (*delivery).hand), cancel: func() {}}
	from := &silent{}
	for range 3 {
		r.push(&delivery{run: r, from: from})
	}
	r.stop()
	if len(from.deadlines) != 3 || from.room != 3 {
		t.Fatalf("%d messages were given back, and there is room for %d; want 3", len(from.deadlines), from.room)
	}
	for _, deadline := range from.deadlines {
		if deadline.IsZero() || !deadline.Equal(from.deadlines[0]) {
			t.Errorf("deadlines %v, want one for all", from.deadlines)
		}
	}
}

// silent is an origin of deliveries that notes by when they are to be settled.
type silent struct {
	deadlines []time.Time
	room      int
}

func (s *silent) settle(ctx context.Context, _ *delivery, _ outcome) error {
	deadline, _ := ctx.Deadline()
	s.deadlines = append(s.deadlines, deadline)
	return context.DeadlineExceeded
}

func (s *silent) settled() { s.room++ }
