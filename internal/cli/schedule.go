package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/ops"
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
	cmd.AddCommand(p.scheduleListCommand(), p.scheduleMessagesCommand(), p.scheduleShowCommand())
	for _, v := range ops.Verbs {
		switch v.Noun {
		case ops.Schedule:
			cmd.AddCommand(p.verbCommand(v.Name, v, scheduleOperand))
		case ops.Scheduled:
			cmd.AddCommand(p.verbCommand(v.Name, v, scheduledOperand))
		}
	}
	return cmd
}

var scheduleOperand = operand{
	args:    []string{"NAME"},
	read:    func(args []string) (ops.Target, error) { return ops.Target{Name: args[0]}, nil },
	name:    func(t ops.Target) string { return "schedule " + t.Name },
	unknown: func(t ops.Target, err error) error { return unknownSchedule(t.Name, err) },
	typed:   func(verb string, t ops.Target) string { return "waybill schedule " + verb + " " + quoted(t.Name) },
	hint: func(_ ops.Target, r ops.Result) string {
		if r.MessageID == "" {
			return ""
		}
		return "See where it is: waybill outbox show " + quoted(r.MessageID)
	},
	row: scheduleOutcome,
}

var scheduledOperand = operand{
	args: []string{"ID"},
	read: scheduleOperand.read,
	name: func(t ops.Target) string { return "message " + t.Name },
	unknown: func(t ops.Target, _ error) error {
		return fmt.Errorf("no message is scheduled under the id %s: it %s", clean(t.Name), ops.Find(ops.Scheduled, "cancel").Nothing)
	},
	typed: scheduleOperand.typed,
	hint:  func(ops.Target, ops.Result) string { return "" },
	row:   scheduleOutcome,
}

// scheduleOutcome is the outcome for a schedule or its message in the JSON
// output.
func scheduleOutcome(_ ops.Verb, _ ops.Target, r ops.Result) any {
	return struct {
		Done bool   `json:"done"`
		ID   string `json:"message_id,omitempty"` // of a run by hand
	}{r.Done, r.MessageID}
}

// unknownSchedule replaces a store's error about a name that it does not know.
func unknownSchedule(name string, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no schedule %s; \"waybill schedule list\" shows them", clean(name))
	}
	return err
}

func (p *program) scheduleShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show {NAME | --message ID}",
		Short: "Show one recurring schedule, or one message that waits for its time",
		Long: `Show one recurring schedule, or with --message one message that waits for its time. Payload and
values of headers may be confidential: they are shown with --payload, and the audit log keeps
who has looked.`,
		Args: takes(1),
	}
	message := cmd.Flags().Bool("message", false, "the argument is the id of a single message")
	return p.shower(cmd, "payload", func() (ops.Noun, operand) {
		if *message {
			return ops.Scheduled, scheduledOperand
		}
		return ops.Schedule, scheduleOperand
	}, p.showScreen)
}
