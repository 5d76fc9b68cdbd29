package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// letterChoice is which dead letters a command changes, and how.
type letterChoice struct {
	letterFilter
	verb             ops.Verb
	numbers          []int64 // given one by one
	all, yes, dryRun bool
	act              deadletter.Act
}

const choiceHelp = `

Name the letters by their numbers, which are taken at their word, or by a filter. What a
filter matches is counted first, and you are asked; --yes answers that, --dry-run stops there.`

// fromState are the verbs for dead letters in states other than open, with the default state of a filter.
var fromState = map[string]deadletter.State{"restore": deadletter.Resolved, "delete": deadletter.Open}

func (p *program) settleCommand(v ops.Verb) *cobra.Command {
	c := letterChoice{verb: v}
	var why string
	cmd := &cobra.Command{
		Use:   v.Name + " {NUMBER... | FILTER | --all}",
		Short: v.Short,
		Long:  wrapped(v.Help()) + choiceHelp,
		RunE: does(func(cmd *cobra.Command, args []string) (err error) {
			if err := c.complete(args); err != nil {
				return err
			}
			if c.act, err = p.act(cmd, why); err != nil {
				return err
			}
			return p.withStores(cmd, v.Noun, func(ctx context.Context, s ops.Stores) error {
				if len(c.numbers) > 0 {
					return p.settleNumbers(ctx, s, &c)
				}
				return p.settleMatching(ctx, s, &c)
			})
		}),
	}
	c.addTo(cmd)
	flags := cmd.Flags()
	if from := fromState[v.Name]; from != "" {
		flags.StringVar((*string)(&c.State), "state", string(from), "with a filter or --all: letters that are open, resolved or discarded")
	}
	flags.BoolVar(&c.all, "all", false, "every open letter, or with that --state")
	flags.BoolVar(&c.yes, "yes", false, "do not ask")
	flags.BoolVar(&c.dryRun, "dry-run", false, "count what matches, and change nothing")
	addWhy(flags, &why)
	return cmd
}

// complete reads which dead letters are meant: numbers, a filter, or all.
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

// each uses the verb on dead letters, until one fails with an error that the others would meet as well, and shows
// progress.
func (c *letterChoice) each(ctx context.Context, s ops.Stores, numbers []int64, told func(done int)) (outcomes []ops.Outcome, err error) {
	for i, n := range numbers {
		out, err := c.verb.Try(ctx, s, n, c.act)
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
		told(i + 1)
	}
	return outcomes, nil
}

// outcomeRows are outcomes in the JSON output.
func (c *letterChoice) outcomeRows(outcomes []ops.Outcome) []map[string]any {
	rows := make([]map[string]any, len(outcomes))
	for i, out := range outcomes {
		rows[i] = map[string]any{"number": out.Number, c.verb.Past: out.Done}
		if out.Failed {
			rows[i]["error"] = out.Why
		}
	}
	return rows
}

// printFailed prints why a dead letter was not changed.
func (p *program) printFailed(v ops.Verb, out ops.Outcome) {
	fmt.Fprintf(p.stderr, "waybill: %s\n", v.Undone(nameOf(out.Number), clean(out.Why)))
}

func nameOf(letter int64) string { return fmt.Sprintf("%s %d", ops.Letter, letter) }

// settleNumbers uses the verb on dead letters that were named one by one, and fails if that failed for one of
// them.
func (p *program) settleNumbers(ctx context.Context, s ops.Stores, c *letterChoice) error {
	outcomes, stopped := c.each(ctx, s, c.numbers, func(int) {})
	if p.json {
		if err := p.printJSON(c.outcomeRows(outcomes)); err != nil {
			return err
		}
	}
	for _, out := range outcomes {
		if out.Failed && stopped == nil {
			stopped = silent
		}
		switch name := nameOf(out.Number); {
		case p.json:
		case out.Failed:
			p.printFailed(c.verb, out)
		case out.Done:
			fmt.Fprintln(p.stdout, c.verb.Told(name, ops.Result{Done: true}))
		default:
			fmt.Fprintf(p.stdout, "%s: %s.\n", ops.Capital(name), out.Why)
		}
	}
	return stopped
}
