package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/schedule"
)

// scheduleLimit is for how long something may be due before somebody should look. Runners and
// relays that run take seconds.
const scheduleLimit = 2 * time.Minute

// checkSchedules looks for what is due and nobody takes up. It says nothing where nothing is
// scheduled.
func checkSchedules(ctx context.Context, store opener.Store) []finding {
	schedules, keeps := store.(schedule.Inspector)
	if !keeps {
		return nil
	}
	stats, err := schedules.ScheduleStats(ctx)
	if err != nil {
		return []finding{failing("schedules", err.Error(), "give the role the rights of a reader: waybill roles")}
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
	found := fmt.Sprintf("%d active, %d paused, %d ended", stats.Active, stats.Paused, stats.Ended)
	if stats.Due > 0 {
		found += fmt.Sprintf("; %d due, the first since %s", stats.Due, age(stats.Late))
	}
	if stats.Late > scheduleLimit {
		return warning("schedules", found, "does a runner run (waybill relay with schedule.enabled)? see: waybill schedule list")
	}
	return passing("schedules", found)
}

func checkDueMessages(stats schedule.Stats) finding {
	found := fmt.Sprintf("%s due, the first since %s", plural(int(stats.DueMessages), "message"), age(stats.LateMessages))
	if stats.LateMessages > scheduleLimit {
		return warning("scheduled", found, "is a relay running? see: waybill schedule messages")
	}
	return passing("scheduled", found)
}
