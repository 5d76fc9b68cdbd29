package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/schedule"
)

// scheduleLimit is how long something may be due before it is reported. Running runners and
// relays take seconds.
const scheduleLimit = 2 * time.Minute

// checkSchedules looks for entries that are due and not picked up. It returns nothing if
// nothing is scheduled.
func (t *tables) checkSchedules(ctx context.Context) []finding {
	schedules, keeps := t.store.(schedule.Inspector)
	if !keeps {
		return nil
	}
	stats, err := schedules.ScheduleStats(ctx)
	if err != nil {
		return t.unread("schedules", err)
	}
	var findings []finding
	if stats.Active+stats.Paused+stats.Ended > 0 {
		findings = append(findings, checkDueSchedules(stats))
	}
	if stats.DueMessages > 0 {
		findings = append(findings, checkDueMessages(stats))
	}
	return findings
}

func checkDueSchedules(stats schedule.Stats) finding {
	found := fmt.Sprintf("%s active, %s paused, %s ended", ops.Count(stats.Active), ops.Count(stats.Paused), ops.Count(stats.Ended))
	if stats.Due > 0 {
		found += fmt.Sprintf("; %s due, the first since %s", ops.Count(stats.Due), ops.Age(stats.Late))
	}
	if stats.Late > scheduleLimit {
		return warning("schedules", found, "does a runner run (waybill relay with schedule.enabled)? see: waybill schedule list")
	}
	return passing("schedules", found)
}

func checkDueMessages(stats schedule.Stats) finding {
	found := fmt.Sprintf("%s due, the first since %s", ops.Plural(stats.DueMessages, "message"), ops.Age(stats.LateMessages))
	if stats.LateMessages > scheduleLimit {
		return warning("scheduled", found, "is a relay running? see: waybill schedule messages")
	}
	return passing("scheduled", found)
}
