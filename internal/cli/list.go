package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

// listing is how a list is printed.
type listing[T any] struct {
	headings []string
	row      func(T) []string
}

// printList prints a list, or says that it is empty. It reports whether hints for a person may follow.
func printList[T any](p *program, list []T, empty string, l listing[T]) (more bool, err error) {
	if p.json {
		return false, p.printJSON(append([]T{}, list...))
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(p.stdout, empty)
		return false, err
	}
	return true, p.printTable(l.of(list))
}

// of returns the headings, and the rows of a list.
func (l listing[T]) of(list []T) ([]string, [][]string) {
	rows := make([][]string, len(list))
	for i, one := range list {
		rows[i] = l.row(one)
	}
	return l.headings, rows
}

// limit is the requested length of a list.
type limit struct {
	n       *int
	usually int
	what    string // as in "groups"
}

const maxListed = 10_000

// lister makes cmd list something of the store, after the checks.
func (p *program) lister(cmd *cobra.Command, most limit, list func(ctx context.Context, store opener.Store) error, checks ...func() error) *cobra.Command {
	cmd.Flags().IntVar(most.n, "limit", most.usually, "the most "+most.what+" to list")
	cmd.Args = cobra.NoArgs
	return p.repeats(cmd, func(cmd *cobra.Command, args []string) error {
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		if *most.n < 1 || *most.n > maxListed {
			return usagef("--limit is %d, the range is 1 to %d", *most.n, maxListed)
		}
		return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
			return list(cmd.Context(), store)
		})(cmd, args)
	})
}

// printAll prints everything that is known about something.
func (p *program) printAll(facts []ops.Fact) error {
	fields := make([][2]string, len(facts))
	for i, f := range facts {
		fields[i] = [2]string{f.Name, f.Value}
	}
	return p.printFields(fields)
}
