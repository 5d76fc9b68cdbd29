package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

func (p *program) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead letters and put them back",
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(p.deadListCommand(), &cobra.Command{
		Use:   "requeue NUMBER...",
		Short: "Put dead letters back",
		Long: `Put dead letters back, by the numbers that "waybill dead list" shows. A relay's letter is
published again under its own id; a consumer's is handled again by that consumer only.`,
		Args: cobra.MinimumNArgs(1),
		RunE: does(p.deadRequeue),
	})
	return cmd
}

func (p *program) deadListCommand() *cobra.Command {
	var f deadletter.Filter
	var origin string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the oldest first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			f.Origin = deadletter.Origin(origin)
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
	}
	return []string{
		strconv.FormatInt(l.Number, 10), from, l.Message.Address(), l.Message.ID, reason,
		strconv.Itoa(l.Attempts), moment(&l.LastFailed), short(l.Error, 60),
	}
}

// requeued is what became of one letter.
type requeued struct {
	Number   int64  `json:"number"`
	Requeued bool   `json:"requeued"`
	Error    string `json:"error,omitempty"`
}

func (p *program) deadRequeue(cmd *cobra.Command, args []string) error {
	numbers := make([]int64, len(args))
	for i, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 1 {
			return usagef("%q is not the number of a dead letter; \"waybill dead list\" shows them", arg)
		}
		numbers[i] = n
	}
	return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		return p.requeue(cmd.Context(), store, numbers)
	})(cmd, args)
}

// requeue puts each letter back and fails if one could not be.
func (p *program) requeue(ctx context.Context, store opener.Store, numbers []int64) error {
	results := make([]requeued, len(numbers))
	failures := 0
	for i, n := range numbers {
		ok, err := store.RequeueDeadLetter(ctx, n)
		results[i] = requeued{Number: n, Requeued: ok, Error: requeueProblem(ok, err)}
		if !ok {
			failures++
		}
	}
	if err := p.printRequeued(results); err != nil {
		return err
	}
	if failures > 0 {
		return silent
	}
	return nil
}

func requeueProblem(ok bool, err error) string {
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return "there is no such dead letter"
	case err != nil:
		return err.Error()
	case !ok:
		return "it is on its way already"
	}
	return ""
}

func (p *program) printRequeued(results []requeued) error {
	if p.json {
		return p.printJSON(results)
	}
	for _, r := range results {
		if r.Requeued {
			fmt.Fprintf(p.stdout, "Requeued dead letter %d.\n", r.Number)
		} else {
			fmt.Fprintf(p.stderr, "waybill: dead letter %d was not requeued: %s\n", r.Number, r.Error)
		}
	}
	return nil
}
