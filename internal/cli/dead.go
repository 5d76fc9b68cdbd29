package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

func (p *program) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead letters, put them back, or resolve them",
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(p.deadListCommand(), &cobra.Command{
		Use:   "requeue NUMBER...",
		Short: "Put dead letters back",
		Long: `Put dead letters back, by the numbers that "waybill dead list" shows. A relay's letter is
published again under its own id, before what is parked behind it; a consumer's is handled
again by that consumer only.`,
		Args: cobra.MinimumNArgs(1),
		RunE: does(p.deadRequeue),
	}, p.deadResolveCommand())
	return cmd
}

func (p *program) deadResolveCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "resolve NUMBER...",
		Short: "Note that dead letters were dealt with in another way",
		Long: `Note that dead letters, by the numbers that "waybill dead list" shows, were dealt with in
another way. They are kept, but listed with --resolved only, and can't be put back any more.
What is parked behind them is published.`,
		Args: cobra.MinimumNArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if err := (deadletter.Act{By: "waybill", Why: note}).Check(); err != nil {
				return usagef("--note: %v", err)
			}
			return p.onLetters(cmd, args, resolving(note))
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "how they were dealt with, kept with them")
	return cmd
}

func (p *program) deadListCommand() *cobra.Command {
	var f deadletter.Filter
	var origin string
	var resolved bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the oldest first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			f.Origin = deadletter.Origin(origin)
			if resolved {
				f.State = deadletter.Resolved
			}
			if origin != "" && f.Origin != deadletter.FromRelay && f.Origin != deadletter.FromConsumer {
				return usagef("--origin is %q; it is %s or %s", origin, deadletter.FromRelay, deadletter.FromConsumer)
			}
			if f.Limit < 1 || f.Limit > maxListed {
				return usagef("--limit is %d, the range is 1 to %d", f.Limit, maxListed)
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadList(cmd.Context(), store, f)
			})(cmd, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&origin, "origin", "", "only letters of the relay, or of a consumer")
	flags.StringVar(&f.Consumer, "consumer", "", "only letters of this consumer")
	flags.StringVar(&f.Topic, "topic", "", "only messages of this topic")
	flags.StringVar(&f.Type, "type", "", "only messages of this type")
	flags.StringVar(&f.Tenant, "tenant", "", "only messages of this tenant")
	flags.BoolVar(&resolved, "resolved", false, "letters that were resolved, instead of those that were not")
	flags.Int64Var(&f.After, "after", 0, "only letters with a higher `number`, for paging")
	flags.IntVar(&f.Limit, "limit", deadletter.DefaultLimit, "the most letters to list")
	return cmd
}

const maxListed = 10_000

// letterRow is a letter as programs get it.
type letterRow struct {
	deadletter.Letter
	MessageID string `json:"message_id"`
	Topic     string `json:"topic"`
	Type      string `json:"type"`
	Source    string `json:"source"`
	Tenant    string `json:"tenant"`
	Key       string `json:"key,omitempty"`
}

func (p *program) deadList(ctx context.Context, store opener.Store, f deadletter.Filter) error {
	letters, err := store.DeadLetters(ctx, f)
	if err != nil {
		return err
	}
	if p.json {
		rows := make([]letterRow, len(letters))
		for i, l := range letters {
			m := &l.Message
			rows[i] = letterRow{Letter: l, MessageID: m.ID, Topic: m.Address(), Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key}
		}
		return p.printJSON(rows)
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(p.stdout, "There are no dead letters.")
		return err
	}
	rows := make([][]string, len(letters))
	for i, l := range letters {
		rows[i] = letterColumns(l)
	}
	if err := p.printTable([]string{"NUMBER", "FROM", "TOPIC", "ID", "REASON", "ATTEMPTS", "LAST FAILED", "ERROR"}, rows); err != nil {
		return err
	}
	if last := letters[len(letters)-1].Number; len(letters) == f.Limit {
		fmt.Fprintf(p.stderr, "There may be more: waybill dead list --after %d\n", last)
	}
	return nil
}

func letterColumns(l deadletter.Letter) []string {
	from := string(l.Origin)
	if name := l.Consumer + l.Destination; name != "" {
		from += " " + name
	}
	reason := string(l.Reason)
	switch {
	case l.Failed:
		reason += ", failed for good"
	case l.Requeued:
		reason += ", requeued"
	case l.ResolvedAt != nil:
		reason += ", resolved"
	}
	if l.Parks {
		reason += fmt.Sprintf(", parks its key with %d behind", l.Behind)
	}
	return []string{
		strconv.FormatInt(l.Number, 10), from, l.Message.Address(), l.Message.ID, reason,
		strconv.Itoa(l.Attempts), moment(&l.LastFailed), short(l.Error, 60),
	}
}

// letterAction is what a command does to each of its letters.
type letterAction struct {
	do      func(ctx context.Context, store opener.Store, number int64) (bool, error)
	done    string // "requeued"
	nothing string // why nothing was to be done
	ok      bool   // that is as good as done
}

var requeueing = letterAction{
	do: func(ctx context.Context, store opener.Store, number int64) (bool, error) {
		return store.RequeueDeadLetter(ctx, number, deadletter.Act{By: "waybill"})
	},
	done: "requeued", nothing: "it is on its way already",
}

func resolving(note string) letterAction {
	return letterAction{
		do: func(ctx context.Context, store opener.Store, number int64) (bool, error) {
			return store.ResolveDeadLetter(ctx, number, deadletter.Act{By: "waybill", Why: note})
		},
		done: "resolved", nothing: "it is resolved already", ok: true,
	}
}

// letterOutcome is what became of one letter.
type letterOutcome struct {
	number int64
	done   bool
	failed bool
	text   string // why not
}

func (p *program) deadRequeue(cmd *cobra.Command, args []string) error {
	return p.onLetters(cmd, args, requeueing)
}

// onLetters does the action to the letters with the given numbers.
func (p *program) onLetters(cmd *cobra.Command, args []string, action letterAction) error {
	numbers := make([]int64, len(args))
	for i, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 1 {
			return usagef("%q is not the number of a dead letter; \"waybill dead list\" shows them", arg)
		}
		numbers[i] = n
	}
	return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		return p.eachLetter(cmd.Context(), store, numbers, action)
	})(cmd, args)
}

// eachLetter does the action to each letter and fails if that failed for one.
func (p *program) eachLetter(ctx context.Context, store opener.Store, numbers []int64, action letterAction) error {
	results := make([]letterOutcome, len(numbers))
	failures := 0
	for i, n := range numbers {
		done, err := action.do(ctx, store, n)
		results[i] = letterOutcome{number: n, done: done, failed: err != nil || !done && !action.ok, text: letterProblem(action, done, err)}
		if results[i].failed {
			failures++
		}
	}
	if err := p.printLetters(results, action); err != nil {
		return err
	}
	if failures > 0 {
		return silent
	}
	return nil
}

func letterProblem(action letterAction, done bool, err error) string {
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return "there is no such dead letter"
	case errors.Is(err, deadletter.ErrResolved):
		return "it was resolved"
	case errors.Is(err, deadletter.ErrRequeued):
		return "it was requeued and is on its way"
	case err != nil:
		return err.Error()
	case !done:
		return action.nothing
	}
	return ""
}

func (p *program) printLetters(results []letterOutcome, action letterAction) error {
	if p.json {
		rows := make([]map[string]any, len(results))
		for i, r := range results {
			rows[i] = map[string]any{"number": r.number, action.done: r.done}
			if r.failed {
				rows[i]["error"] = r.text
			}
		}
		return p.printJSON(rows)
	}
	for _, r := range results {
		switch {
		case r.done:
			fmt.Fprintf(p.stdout, "%s dead letter %d.\n", strings.ToUpper(action.done[:1])+action.done[1:], r.number)
		case r.failed:
			fmt.Fprintf(p.stderr, "waybill: dead letter %d was not %s: %s\n", r.number, action.done, r.text)
		default:
			fmt.Fprintf(p.stdout, "Dead letter %d: %s.\n", r.number, r.text)
		}
	}
	return nil
}
