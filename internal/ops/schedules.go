package ops

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/schedule"
)

// When says when a schedule is planned.
func When(r *schedule.Recurring) string {
	if r.Every > 0 {
		return "every " + Age(r.Every)
	}
	return r.Cron + " " + r.TimeZone
}

// lateness is how long a schedule has been due; 0 if it is not.
func lateness(s *schedule.State, now time.Time) time.Duration {
	if s.NextAt.IsZero() {
		return 0
	}
	return max(0, now.Sub(s.NextAt))
}

// Late says how long a schedule has been due, "" if it is not.
func Late(s *schedule.State, now time.Time) string {
	if late := lateness(s, now); late > 0 {
		return Age(late)
	}
	return ""
}

// ScheduleVerbs are the verbs for a recurring schedule.
func ScheduleVerbs(s *schedule.State) []Verb {
	return verbs(Schedule, func(v Verb) bool {
		switch v.Name {
		case "pause":
			return s.Status() == schedule.Active
		case "resume":
			return s.Status() == schedule.Paused
		}
		return true
	})
}

// ScheduleRow is a schedule in JSON output, without its payload.
type ScheduleRow struct {
	State *schedule.State `json:"-"`
	Late  string          `json:"-"`

	Name           string               `json:"name"`
	Status         schedule.Status      `json:"status"`
	Cron           string               `json:"cron,omitempty"`
	TimeZone       string               `json:"time_zone,omitempty"`
	ClockChange    schedule.ClockChange `json:"clock_change,omitempty"`
	EverySeconds   float64              `json:"every_seconds,omitempty"`
	Topic          string               `json:"topic"`
	Type           string               `json:"type"`
	Start          time.Time            `json:"start"`
	End            time.Time            `json:"end,omitzero"`
	MaxExecutions  int                  `json:"max_executions,omitempty"`
	Overlap        schedule.Overlap     `json:"overlap"`
	CatchUpSeconds float64              `json:"catch_up_seconds"`
	NextAt         time.Time            `json:"next_at,omitzero"`
	LateSeconds    float64              `json:"late_seconds"`
	LastAt         time.Time            `json:"last_at,omitzero"`
	LastID         string               `json:"last_id,omitempty"`
	Executions     int                  `json:"executions"`
	Skipped        int                  `json:"skipped"`
}

// ScheduleRowOf returns the row of a schedule, as of now by the store's clock.
func ScheduleRowOf(s schedule.State, now time.Time) ScheduleRow {
	r := ScheduleRow{
		State: &s, Late: Late(&s, now),
		Name: s.Name, Status: s.Status(), Cron: s.Cron, EverySeconds: s.Every.Seconds(), Topic: s.Message.Address(), Type: s.Message.Type,
		Start: s.Start, End: s.End, MaxExecutions: s.MaxExecutions, Overlap: s.Overlap, CatchUpSeconds: s.CatchUp.Seconds(),
		NextAt: s.NextAt, LateSeconds: lateness(&s, now).Seconds(), LastAt: s.LastAt, LastID: s.LastID, Executions: s.Executions, Skipped: s.Skipped,
	}
	if s.Cron != "" {
		r.TimeZone, r.ClockChange = s.TimeZone, cmp.Or(s.ClockChange, schedule.EachOnce)
	}
	return r
}

// Schedules lists schedules after the one with the given name.
func Schedules(ctx context.Context, store schedule.Inspector, after string, limit int) ([]ScheduleRow, error) {
	list, err := store.Schedules(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	now, err := store.ScheduleTime(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]ScheduleRow, len(list))
	for i, s := range list {
		rows[i] = ScheduleRowOf(s, now)
	}
	return rows, nil
}

// When says when the schedule is planned.
func (r ScheduleRow) When() string { return When(&r.State.Recurring) }

// Place writes where a page of scheduled messages ends.
func Place(m *schedule.ScheduledMessage) string {
	return m.DueAt.UTC().Format(time.RFC3339Nano) + "," + strconv.FormatInt(m.Position, 10)
}

// ParsePlace reads what [Place] has written; "" is the beginning.
func ParsePlace(text string) (*schedule.ScheduledMessage, error) {
	if text == "" {
		return nil, nil
	}
	due, position, _ := strings.Cut(text, ",")
	at, errDue := time.Parse(time.RFC3339Nano, due)
	n, errPosition := strconv.ParseInt(position, 10, 64)
	if errDue != nil || errPosition != nil {
		return nil, &waybill.InvalidError{Field: "after", Reason: "is not a place in the list: take it from the page before"}
	}
	return &schedule.ScheduledMessage{DueAt: at, Position: n}, nil
}
