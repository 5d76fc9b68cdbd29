package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// letterAction is what a command does to each of its letters.
type letterAction struct {
	verb    string           // "requeue"
	done    string           // "requeued"
	nothing string           // why nothing was to be done
	ends    deadletter.State // a letter that was so before is as good as done
	from    deadletter.State // of the letters that a filter matches, if --state may say another
	advice  func(f *letterFilter) string
	do      func(opener.Store, context.Context, int64, deadletter.Act) (bool, error)
}

func (p *program) deadRequeueCommand() *cobra.Command {
	return p.settleCommand(letterAction{
		verb: "requeue", done: "requeued", nothing: "it is pending already", do: opener.Store.RequeueDeadLetter,
		advice: func(f *letterFilter) string {
			return "To put many back at a bearable pace: " + f.typed("waybill dead replay")
		},
	}, "Put dead letters back", `Put dead letters back. A relay's letter is published again under its own id, before what is
parked behind it; a consumer's is handled again by that consumer only.`)
}

func (p *program) deadResolveCommand() *cobra.Command {
	return p.settleCommand(letterAction{
		verb: "resolve", done: "resolved", nothing: "it was discarded", ends: deadletter.Resolved, do: opener.Store.ResolveDeadLetter,
	}, "Note that dead letters were dealt with in another way", `Note that dead letters were dealt with in another way; --why says how. They are kept, but
listed with --state resolved only, and can't be requeued any more. What is parked behind them
is published.`)
}

func (p *program) deadDiscardCommand() *cobra.Command {
	return p.settleCommand(letterAction{
		verb: "discard", done: "discarded", nothing: "it was resolved in another way", ends: deadletter.Discarded, do: opener.Store.DiscardDeadLetter,
	}, "Note that nobody will deal with dead letters", `Note that nobody will deal with dead letters: their messages count as discarded. They are
kept, but listed with --state discarded only, and can't be requeued any more. What is parked
behind them is published.`)
}

func (p *program) deadRestoreCommand() *cobra.Command {
	return p.settleCommand(letterAction{
		verb: "restore", done: "restored", nothing: "it is open", ends: deadletter.Open, from: deadletter.Resolved, do: opener.Store.RestoreDeadLetter,
	}, "Open dead letters again that were resolved or discarded by mistake", `Open dead letters again that were resolved or discarded by mistake, so that they can be requeued.
What was parked behind them has gone on.`)
}

func (p *program) deadDeleteCommand() *cobra.Command {
	return p.settleCommand(letterAction{
		verb: "delete", done: "deleted", from: deadletter.Open, do: opener.Store.DeleteDeadLetter,
	}, "Remove dead letters with their payloads", `Remove dead letters with their payloads, at once and for good; the audit log keeps their numbers
and the ids of the messages. For its consumer a message counts as processed then. What is parked
behind them is published.`)
}

// letterChoice is which letters a command changes, and how.
type letterChoice struct {
	letterFilter
	numbers          []int64 // given one by one
	all, yes, dryRun bool
	act              deadletter.Act
}

const choiceHelp = `

Name the letters by their numbers, which are taken at their word, or by a filter. What a
filter matches is counted first, and you are asked; --yes answers that, --dry-run stops there.`

func (p *program) settleCommand(action letterAction, short, long string) *cobra.Command {
	var c letterChoice
	var why string
	cmd := &cobra.Command{
		Use:   action.verb + " {NUMBER... | FILTER | --all}",
		Short: short,
		Long:  long + choiceHelp,
		RunE: does(func(cmd *cobra.Command, args []string) (err error) {
			if err := c.complete(args); err != nil {
				return err
			}
			if c.act, err = p.act(cmd, why); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				if len(c.numbers) > 0 {
					return p.settleNumbers(cmd.Context(), store, &c, action)
				}
				return p.settleMatching(cmd.Context(), store, &c, action)
			})(cmd, args)
		}),
	}
	c.addTo(cmd)
	flags := cmd.Flags()
	if action.from != "" {
		flags.StringVar((*string)(&c.State), "state", string(action.from), "with a filter or --all: letters that are open, resolved or discarded")
	}
	flags.BoolVar(&c.all, "all", false, "every open letter, or with that --state")
	flags.BoolVar(&c.yes, "yes", false, "do not ask")
	flags.BoolVar(&c.dryRun, "dry-run", false, "count what matches, and change nothing")
	addWhy(flags, &why)
	return cmd
}

// complete reads which letters are meant: numbers, a filter, or all.
func (c *letterChoice) complete(args []string) (err error) {
	if c.numbers, err = letterNumbers(args); err != nil {
		return err
	}
	switch filtered := c.given() || c.all; {
	case len(args) > 0 && (filtered || c.dryRun):
		return usagef("give the numbers of dead letters or a filter, not both")
	case len(args) == 0 && !filtered:
		return usagef("give the numbers of dead letters, a filter such as --group, or --all")
	case c.given() && c.all:
		return usagef("--all goes without a filter")
	}
	if err := c.letterFilter.complete(); err != nil {
		return err
	}
	return c.completeText()
}

// letterOutcome is what became of one letter.
type letterOutcome struct {
	number    int64
	done      bool
	failed    bool
	overtaken bool   // somebody else has dealt with it
	text      string // why not
}

// row is the outcome as programs get it.
func (o letterOutcome) row(action letterAction) map[string]any {
	row := map[string]any{"number": o.number, action.done: o.done}
	if o.failed {
		row["error"] = o.text
	}
	return row
}

// settleOne does the action to a letter. An error is one that others would meet as well.
func settleOne(ctx context.Context, store opener.Store, number int64, act deadletter.Act, action letterAction) (letterOutcome, error) {
	done, err := action.do(store, ctx, number, act)
	out := letterOutcome{number: number, done: done, failed: err != nil || !done}
	if err == nil && !done && action.ends != "" {
		var l deadletter.Letter
		l, err = store.DeadLetter(ctx, number)
		out.failed = l.State != action.ends
	}
	switch {
	case waybill.IsUnavailable(err):
		return out, err
	case err != nil:
		out.text, out.overtaken = letterProblem(err)
	case !out.failed && !done:
		out.text = "it is " + action.done + " already"
	case !done:
		out.text, out.overtaken = action.nothing, true
	}
	return out, nil
}

// settleNumbers does the action to letters that were named one by one, and fails if that
// failed for one of them.
func (p *program) settleNumbers(ctx context.Context, store opener.Store, c *letterChoice, action letterAction) error {
	var outcomes []letterOutcome
	var stopped error
	for _, n := range c.numbers {
		out, err := settleOne(ctx, store, n, c.act, action)
		if stopped = err; err != nil {
			break
		}
		outcomes = append(outcomes, out)
	}
	if err := p.printOutcomesOf(outcomes, action); err != nil {
		return err
	}
	for _, out := range outcomes {
		if out.failed && stopped == nil {
			stopped = silent
		}
	}
	return stopped
}

func (p *program) printOutcomesOf(outcomes []letterOutcome, action letterAction) error {
	if p.json {
		rows := make([]map[string]any, len(outcomes))
		for i, out := range outcomes {
			rows[i] = out.row(action)
		}
		return p.printJSON(rows)
	}
	for _, out := range outcomes {
		switch {
		case out.done:
			fmt.Fprintf(p.stdout, "%s dead letter %d.\n", capital(action.done), out.number)
		case out.failed:
			fmt.Fprintf(p.stderr, "waybill: dead letter %d was not %s: %s\n", out.number, action.done, clean(out.text))
		default:
			fmt.Fprintf(p.stdout, "Dead letter %d: %s.\n", out.number, out.text)
		}
	}
	return nil
}
