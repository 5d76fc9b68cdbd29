package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/schedule"
)

func (p *program) schedulePauseCommand() *cobra.Command {
	return p.scheduleActCommand(scheduleAction{
		use: "pause NAME", short: "Stop a recurring schedule until it is resumed",
		long: "Stop a recurring schedule until it is resumed. What it has enqueued goes on. It stays paused when its\nprogram restarts.",
		do: func(ctx context.Context, o *schedule.Operator, name string, act deadletter.Act) (scheduleOutcome, error) {
			done, err := o.Pause(ctx, name, act)
			return toldOf(done, "Paused schedule "+name+".", "Schedule "+name+" is paused already, or has ended."), err
		},
	})
}

func (p *program) scheduleResumeCommand() *cobra.Command {
	return p.scheduleActCommand(scheduleAction{
		use: "resume NAME", short: "Let a paused schedule go on, from now",
		long: "Let a paused schedule go on, from now: what was planned meanwhile is left out and not counted.",
		do: func(ctx context.Context, o *schedule.Operator, name string, act deadletter.Act) (scheduleOutcome, error) {
			done, err := o.Resume(ctx, name, act)
			return toldOf(done, "Resumed schedule "+name+".", "Schedule "+name+" is not paused."), err
		},
	})
}

func (p *program) scheduleRunCommand() *cobra.Command {
	return p.scheduleActCommand(scheduleAction{
		use: "run-now NAME", short: "Enqueue the message of a recurring schedule at once",
		long: "Enqueue the message of a recurring schedule at once, whatever its status is. A relay takes it up at its\nnext poll. The schedule itself stays as it is.",
		do: func(ctx context.Context, o *schedule.Operator, name string, act deadletter.Act) (scheduleOutcome, error) {
			id, err := o.RunNow(ctx, name, act)
			return scheduleOutcome{
				Done: true, ID: id, text: "Schedule " + name + " runs now, by the message " + id + ".",
				hint: "See where it is: waybill outbox show " + quoted(id),
			}, err
		},
	})
}

func (p *program) scheduleRemoveCommand() *cobra.Command {
	return p.scheduleActCommand(scheduleAction{
		use: "remove NAME", short: "Remove a recurring schedule",
		long: "Remove a recurring schedule. What it has enqueued goes on. A program that puts it at its start makes it\nanew: pause it if it is to stay away.",
		do: func(ctx context.Context, o *schedule.Operator, name string, act deadletter.Act) (scheduleOutcome, error) {
			done, err := o.Remove(ctx, name, act)
			out := toldOf(done, "Removed schedule "+name+".", "there is no schedule "+name)
			out.missing = !done
			return out, err
		},
	})
}

func (p *program) scheduleCancelCommand() *cobra.Command {
	return p.scheduleActCommand(scheduleAction{
		use: "cancel ID", short: "Remove a single message that waits for its time",
		long: "Remove a single message that waits for its time. It must have been scheduled under its id; for what\nwas enqueued with a delivery time there is \"waybill outbox cancel\".",
		do: func(ctx context.Context, o *schedule.Operator, id string, act deadletter.Act) (scheduleOutcome, error) {
			done, err := o.Cancel(ctx, id, act)
			out := toldOf(done, "Cancelled message "+id+".", "no message is scheduled under the id "+id+": it is pending already, was cancelled, or never was")
			out.missing = !done
			return out, err
		},
	})
}

// toldOf is an outcome with the text for what was done, or else for why nothing was.
func toldOf(done bool, text, nothing string) scheduleOutcome {
	if !done {
		text = nothing
	}
	return scheduleOutcome{Done: done, text: text}
}

// printScheduleOutcome fails if there was nothing that could be changed.
func (p *program) printScheduleOutcome(out scheduleOutcome) error {
	if p.json {
		if err := p.printJSON(out); err != nil {
			return err
		}
	}
	switch {
	case out.missing:
		return errors.New(clean(out.text))
	case p.json:
		return nil
	}
	if _, err := fmt.Fprintln(p.stdout, clean(out.text)); err != nil {
		return err
	}
	if out.hint != "" {
		p.hintf("%s", out.hint)
	}
	return nil
}

// unknownSchedule replaces what a store says about a name that it does not know.
func unknownSchedule(name string, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no schedule %s; \"waybill schedule list\" shows them", clean(name))
	}
	return err
}
