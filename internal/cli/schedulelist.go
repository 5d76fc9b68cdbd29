package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/schedule"
)

const usualSchedules = 100

func (p *program) scheduleListCommand() *cobra.Command {
	var after string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List recurring schedules by name",
		Long: `List recurring schedules by name. LATE is for how long an occurrence is due that no runner has
enqueued yet; RUNS counts those that were.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			return p.withSchedules(cmd, func(ctx context.Context, _ opener.Store, schedules schedule.OperatorStore) error {
				return p.scheduleList(ctx, schedules, after, limit)
			})
		}),
	}
	cmd.Flags().StringVar(&after, "after", "", "only schedules behind this `name`, for paging")
	addLimit(cmd.Flags(), &limit, usualSchedules, "schedules")
	return cmd
}

// scheduleRow is a schedule as programs get it, without its payload.
type scheduleRow struct {
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

func scheduleRowOf(s schedule.State, now time.Time) scheduleRow {
	r := scheduleRow{
		Name: s.Name, Status: s.Status(), Cron: s.Cron, EverySeconds: s.Every.Seconds(), Topic: s.Message.Address(), Type: s.Message.Type,
		Start: s.Start, End: s.End, MaxExecutions: s.MaxExecutions, Overlap: s.Overlap, CatchUpSeconds: s.CatchUp.Seconds(),
		NextAt: s.NextAt, LateSeconds: lateness(&s, now).Seconds(), LastAt: s.LastAt, LastID: s.LastID, Executions: s.Executions, Skipped: s.Skipped,
	}
	if s.Cron != "" {
		r.TimeZone, r.ClockChange = s.TimeZone, cmp.Or(s.ClockChange, schedule.EachOnce)
	}
	return r
}

func (p *program) scheduleList(ctx context.Context, store schedule.Inspector, after string, limit int) error {
	list, err := store.Schedules(ctx, after, limit)
	if err != nil {
		return err
	}
	now, err := store.ScheduleTime(ctx)
	if err != nil {
		return err
	}
	if p.json {
		rows := make([]scheduleRow, len(list))
		for i, s := range list {
			rows[i] = scheduleRowOf(s, now)
		}
		return p.printJSON(rows)
	}
	if len(list) == 0 {
		return p.nothing(after != "", "There are no recurring schedules.")
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{
			s.Name, string(s.Status()), when(&s.Recurring), moment(&s.NextAt), lateText(lateness(&s, now)), moment(&s.LastAt),
			thousands(s.Executions), thousands(s.Skipped), s.Message.Address(),
		}
	}
	if err := p.printTable([]string{"NAME", "STATUS", "WHEN", "NEXT", "LATE", "LAST", "RUNS", "SKIPPED", "TOPIC"}, rows); err != nil {
		return err
	}
	last := list[len(list)-1].Name
	if len(list) == limit {
		p.hintf("There may be more: waybill schedule list --limit %d --after %s", limit, quoted(last))
	} else {
		p.hintf("One of them in full: waybill schedule show %s", quoted(last))
	}
	return nil
}

// nothing says that a list is empty, or that its last page was shown before.
func (p *program) nothing(paged bool, text string) error {
	if paged {
		text = "There are no more."
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}

func lateText(late time.Duration) string {
	if late == 0 {
		return ""
	}
	return age(late)
}

func (p *program) scheduleMessagesCommand() *cobra.Command {
	var after string
	var limit int
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "List single messages that wait for their time, the first one due first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			from, err := parsePlace(after)
			if err != nil {
				return err
			}
			return p.withSchedules(cmd, func(ctx context.Context, _ opener.Store, schedules schedule.OperatorStore) error {
				return p.scheduleMessages(ctx, schedules, from, limit)
			})
		}),
	}
	cmd.Flags().StringVar(&after, "after", "", "only messages behind this `place`, for paging: the hint below a full page has it")
	addLimit(cmd.Flags(), &limit, usualSchedules, "messages")
	return cmd
}

// placeText and parsePlace write and read where a page ends: DueAt and Position.
func placeText(m *schedule.ScheduledMessage) string {
	return m.DueAt.UTC().Format(time.RFC3339Nano) + "," + strconv.FormatInt(m.Position, 10)
}

func parsePlace(text string) (*schedule.ScheduledMessage, error) {
	if text == "" {
		return nil, nil
	}
	due, position, _ := strings.Cut(text, ",")
	at, errDue := time.Parse(time.RFC3339Nano, due)
	n, errPosition := strconv.ParseInt(position, 10, 64)
	if errDue != nil || errPosition != nil {
		return nil, usagef("--after is %q; take it from the hint below a page", text)
	}
	return &schedule.ScheduledMessage{DueAt: at, Position: n}, nil
}

func (p *program) scheduleMessages(ctx context.Context, store schedule.Inspector, after *schedule.ScheduledMessage, limit int) error {
	list, err := store.ScheduledMessages(ctx, after, limit)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]schedule.ScheduledMessage{}, list...))
	}
	if len(list) == 0 {
		return p.nothing(after != nil, "No message waits for its time.")
	}
	rows := make([][]string, len(list))
	for i, m := range list {
		note := ""
		if !m.Cancellable {
			note = "enqueued with a delivery time"
		}
		rows[i] = []string{moment(&m.DueAt), m.ID, m.Topic, m.Type, m.Key, note}
	}
	if err := p.printTable([]string{"DUE", "ID", "TOPIC", "TYPE", "KEY", "NOT TO BE CANCELLED"}, rows); err != nil {
		return err
	}
	if last := &list[len(list)-1]; len(list) == limit {
		p.hintf("There may be more: waybill schedule messages --limit %d --after %s", limit, placeText(last))
	}
	return nil
}
