package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
)

// operatorSource is the source of messages by which an operator lets an instance go on.
const operatorSource = "waybill-operator"

// sagaAct is what an operator can do to an instance.
type sagaAct struct {
	command, short, long string
	do                   func(*saga.Operator, context.Context, saga.ID, deadletter.Act) error
	done                 string // as in "was not resumed"
	said                 string // as in "Resumed order 17"
	then                 string // what happens now
}

func (p *program) sagaResumeCommand() *cobra.Command {
	return p.sagaActCommand(sagaAct{
		command: "resume", short: "Let a stuck instance try its compensation once more",
		long: `Let a stuck instance try its compensation once more, from the step that could not be undone.
Mend the cause first: "waybill saga show" tells it.`,
		do: (*saga.Operator).Resume, done: "resumed", said: "Resumed", then: "it tries its compensation once more",
	})
}

func (p *program) sagaCompensateCommand() *cobra.Command {
	return p.sagaActCommand(sagaAct{
		command: "compensate", short: "Make a running instance undo its steps",
		long: `Make a running instance undo the steps that are done, the last first, as if the next one had
failed. What runs at this moment is not interrupted: if it changes the instance first, nothing
is done, and the command says so.`,
		do: (*saga.Operator).Compensate, done: "compensated", said: "Compensating", then: "its steps are being undone, the last first",
	})
}

func (p *program) sagaActCommand(a sagaAct) *cobra.Command {
	var id saga.ID
	var why string
	cmd := &cobra.Command{
		Use:   a.command + " " + sagaArgs,
		Short: a.short,
		Long:  a.long,
		Args:  takes(2),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			id.Saga, id.Key = args[0], args[1]
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			return p.withSagas(cmd, func(ctx context.Context, store sagaStore) error { return p.sagaAct(ctx, store, a, id, act) })
		}),
	}
	addTenant(cmd.Flags(), &id.Tenant)
	addWhy(cmd.Flags(), &why)
	return cmd
}

func (p *program) sagaAct(ctx context.Context, store sagaStore, a sagaAct, id saga.ID, act deadletter.Act) error {
	operator, err := saga.NewOperator(store, saga.OperatorConfig{Source: operatorSource})
	if err != nil {
		return err
	}
	if err := a.do(operator, ctx, id, act); err != nil {
		return a.problem(id, err)
	}
	if p.json {
		return p.printJSON(struct {
			saga.ID
			Action string `json:"action"`
		}{id, a.command})
	}
	fmt.Fprintf(p.stdout, "%s %s: %s.\n", a.said, sagaName(id), a.then)
	p.hintf("See how far it is: %s", sagaTyped("show", id))
	return nil
}

// problem says why an instance was not changed.
func (a sagaAct) problem(id saga.ID, err error) error {
	reason := ""
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return unknownInstance(id, err)
	case errors.Is(err, saga.ErrNotStuck):
		reason = "it is not stuck"
	case errors.Is(err, saga.ErrNotRunning):
		reason = "it is not running: it is compensating, stuck, or has ended"
	case errors.Is(err, saga.ErrNoSteps):
		reason = "it has no steps, so there is nothing that could be undone by itself"
	case waybill.IsConflict(err):
		reason = "it was changed at the same time; look at it again: " + sagaTyped("show", id)
	default:
		return err
	}
	return fmt.Errorf("%s was not %s: %s", sagaName(id), a.done, reason)
}
