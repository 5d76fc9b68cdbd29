package cli

import (
	"slices"
	"testing"
	"time"
)

// TestCheckSchedules lets a schedule of 30 seconds be late, and then a message of two days.
func TestCheckSchedules(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	if got := (&tables{store: m}).checkSchedules(t.Context()); got != nil {
		t.Errorf("of nothing: %+v, want nothing", got)
	}
	m.plan(t)
	for _, tt := range []struct {
		later time.Duration
		want  []finding
	}{
		{0, []finding{passing("schedules", "2 active, 0 paused, 0 ended")}},
		{time.Minute, []finding{passing("schedules", "2 active, 0 paused, 0 ended; 1 due, the first since 30s")}},
		{2 * time.Minute, []finding{warning("schedules", "2 active, 0 paused, 0 ended; 1 due, the first since 2m30s",
			"does a runner run (waybill relay with schedule.enabled)? see: waybill schedule list")}},
		{48 * time.Hour, []finding{
			warning("schedules", "2 active, 0 paused, 0 ended; 2 due, the first since 2d", "does a runner run (waybill relay with schedule.enabled)? see: waybill schedule list"),
			warning("scheduled", "1 message due, the first since 3m0s", "is a relay running? see: waybill schedule messages"),
		}},
	} {
		m.later(tt.later)
		if got := (&tables{store: m}).checkSchedules(t.Context()); !slices.Equal(got, tt.want) {
			t.Errorf("%v later: %+v, want %+v", tt.later, got, tt.want)
		}
	}
}
