package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) deadListCommand() *cobra.Command {
	var f letterFilter
	cmd := &cobra.Command{Use: "list", Short: "List dead letters, the oldest first"}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.State), "state", "", "letters that are open, resolved or discarded (default open)")
	flags.BoolVar(&f.Newest, "newest", false, "the newest first")
	flags.Int64Var(&f.After, "after", 0, "only letters behind the one with this `number`, for paging")
	return p.lister(cmd, limit{&f.Limit, deadletter.DefaultLimit, "letters"}, func(ctx context.Context, store opener.Store) error {
		return p.deadList(ctx, store, &f)
	}, f.complete)
}

var letterListing = listing[ops.LetterRow]{
	[]string{"NUMBER", "FROM", "TOPIC", "ID", "REASON", "ATTEMPTS", "LAST FAILED", "ERROR"},
	func(l ops.LetterRow) []string {
		return []string{
			strconv.FormatInt(l.Number, 10), ops.From(&l.Letter), l.Topic, l.MessageID, strings.Join(ops.Conditions(&l.Letter), ", "),
			ops.Count(l.Attempts), ops.Moment(&l.LastFailed), ops.Short(l.Error, 60),
		}
	},
}

func (p *program) deadList(ctx context.Context, store opener.Store, f *letterFilter) error {
	letters, err := store.DeadLetters(ctx, f.Filter)
	if err != nil {
		return err
	}
	if f.TextAlone() {
		p.hintf("The text was looked for in the newest %s letters; --group or --since looks in all.", ops.Count(deadletter.TextReach))
	}
	empty := ops.NoLetters
	if f.given() || f.After > 0 {
		empty = ops.NoLetterMatches
	}
	if more, err := printList(p, ops.LetterRows(letters), empty, letterListing); err != nil || !more {
		return err
	}
	last := letters[len(letters)-1].Number
	if len(letters) < f.Limit {
		p.hintf("One of them in full: waybill dead show %d", last)
		return nil
	}
	more := f.typed("waybill dead list")
	if f.State != "" {
		more += " --state " + string(f.State)
	}
	if f.Newest {
		more += " --newest"
	}
	p.hintf("There may be more: %s --limit %d --after %d", more, f.Limit, last)
	return nil
}
