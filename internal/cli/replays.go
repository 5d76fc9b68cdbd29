package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) deadReplaysCommand() *cobra.Command {
	var n int
	return p.lister(&cobra.Command{
		Use:   "replays",
		Short: "Show bulk replays, those that run first, then the newest first",
	}, limit{&n, 20, "replays"}, func(ctx context.Context, store opener.Store) error {
		replays, err := store.Replays(ctx, n)
		if err != nil {
			return err
		}
		_, err = printList(p, replays, ops.NoReplays, replayListing)
		return err
	})
}

var replayListing = listing[deadletter.Replay]{
	[]string{"NUMBER", "STATE", "LETTERS", "REQUEUED", "PASSED OVER", "DEAD AGAIN", "RATE", "STARTED", "ENDED", "BY", "WHY"},
	func(r deadletter.Replay) []string {
		return []string{
			strconv.FormatInt(r.Number, 10), string(r.State), ops.Count(r.Letters), ops.Count(r.Requeued), ops.Count(r.Skipped), ops.Count(r.Failed),
			fmt.Sprint(r.Plan.Rate), ops.Moment(&r.StartedAt), ops.Moment(r.EndedAt), r.Act.By, ops.Short(strings.TrimSpace(r.Act.Why+" "+r.Problem), 80),
		}
	},
}

var replayOperand = operand{
	args: []string{"NUMBER"},
	read: func(args []string) (ops.Target, error) {
		number, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || number < 1 {
			return ops.Target{}, usagef("%q is not the number of a replay; \"waybill dead replays\" shows them", args[0])
		}
		return ops.Target{Number: number}, nil
	},
	name: func(t ops.Target) string { return fmt.Sprintf("replay %d", t.Number) },
	unknown: func(t ops.Target, _ error) error {
		return fmt.Errorf("there is no replay %d; \"waybill dead replays\" shows them", t.Number)
	},
	typed: func(string, ops.Target) string { return "waybill dead replays" },
	hint:  func(ops.Target, ops.Result) string { return "" },
	row: func(v ops.Verb, t ops.Target, r ops.Result) any {
		return map[string]any{"number": t.Number, v.Past: r.Done}
	},
}
