package cli

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/schedule"
)

func (p *program) scheduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Look into what is scheduled, and pause, run or remove it",
		Long: `Look into what is scheduled. "list" shows the recurring schedules, "messages" the single messages
that wait for their time, "show" one of either. "pause", "resume", "run-now" and "remove" are for a
recurring schedule, by its name; "cancel" is for a single message, by its id. "waybill dead audit"
shows who has changed what, and why.`,
		RunE: needsSubcommand,
	}
	cmd.AddCommand(p.scheduleListCommand(), p.scheduleMessagesCommand(), p.scheduleShowCommand(), p.schedulePauseCommand(),
		p.scheduleResumeCommand(), p.scheduleRunCommand(), p.scheduleRemoveCommand(), p.scheduleCancelCommand())
	return cmd
}

// withSchedules is withTables for a store that keeps schedules.
func (p *program) withSchedules(cmd *cobra.Command, fn func(ctx context.Context, store opener.Store, schedules schedule.OperatorStore) error) error {
	return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		schedules, keeps := store.(schedule.OperatorStore)
		if !keeps {
			return usagef("%s keeps no schedules", store.Address())
		}
		return fn(cmd.Context(), store, schedules)
	})(cmd, nil)
}

// scheduleAction is what a command does to one schedule or message.
type scheduleAction struct {
	use, short, long string
	do               func(ctx context.Context, o *schedule.Operator, name string, act deadletter.Act) (scheduleOutcome, error)
}

// scheduleOutcome is what became of it.
type scheduleOutcome struct {
	Done bool   `json:"done"`
	ID   string `json:"message_id,omitempty"` // of a run by hand

	text    string // for people
	hint    string
	missing bool // there is no such thing
}

func (p *program) scheduleActCommand(a scheduleAction) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   a.use,
		Short: a.short,
		Long:  a.long,
		Args:  takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			return p.withSchedules(cmd, func(ctx context.Context, _ opener.Store, schedules schedule.OperatorStore) error {
				o, err := schedule.NewOperator(schedules, schedule.OperatorConfig{Observer: waybill.LogTo(slog.New(slog.NewTextHandler(io.Discard, nil)))})
				if err != nil {
					return err
				}
				out, err := a.do(ctx, o, args[0], act)
				if err != nil {
					return unknownSchedule(args[0], err)
				}
				return p.printScheduleOutcome(out)
			})
		}),
	}
	addWhy(cmd.Flags(), &why)
	return cmd
}

// when says to a person when a schedule is planned.
func when(r *schedule.Recurring) string {
	if r.Every > 0 {
		return "every " + age(r.Every)
	}
	return r.Cron + " " + r.TimeZone
}

// lateness is for how long the time of a schedule has come; 0 if it has not.
func lateness(s *schedule.State, now time.Time) time.Duration {
	if s.NextAt.IsZero() {
		return 0
	}
	return max(0, now.Sub(s.NextAt))
}
