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

const usualReplays = 20

func (p *program) deadReplaysCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "replays",
		Short: "Show bulk replays, those that run first, then the newest first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadReplays(cmd.Context(), store, limit)
			})(cmd, args)
		}),
	}
	addLimit(cmd.Flags(), &limit, usualReplays, "replays")
	return cmd
}

func (p *program) deadReplays(ctx context.Context, store opener.Store, limit int) error {
	replays, err := store.Replays(ctx, limit)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]deadletter.Replay{}, replays...))
	}
	if len(replays) == 0 {
		_, err := fmt.Fprintln(p.stdout, "There are no bulk replays.")
		return err
	}
	rows := make([][]string, len(replays))
	for i, r := range replays {
		rows[i] = []string{
			strconv.FormatInt(r.Number, 10), string(r.State), thousands(r.Letters), thousands(r.Requeued), thousands(r.Skipped), thousands(r.Failed),
			fmt.Sprint(r.Plan.Rate), moment(&r.StartedAt), moment(r.EndedAt), r.Act.By, short(strings.TrimSpace(r.Act.Why+" "+r.Problem), 80),
		}
	}
	return p.printTable([]string{"NUMBER", "STATE", "LETTERS", "REQUEUED", "PASSED OVER", "DEAD AGAIN", "RATE", "STARTED", "ENDED", "BY", "WHY"}, rows)
}

func (p *program) deadReplayCancelCommand() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "replay-cancel NUMBER",
		Short: "End a bulk replay that runs",
		Long:  `End a bulk replay that runs. What it has requeued goes on; the rest stays dead.`,
		Args:  takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || number < 1 {
				return usagef("%q is not the number of a replay; \"waybill dead replays\" shows them", args[0])
			}
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadReplayCancel(cmd.Context(), store, number, act)
			})(cmd, args)
		}),
	}
	addWhy(cmd.Flags(), &why)
	return cmd
}

func (p *program) deadReplayCancel(ctx context.Context, store opener.Store, number int64, act deadletter.Act) error {
	cancelled, err := store.CancelReplay(ctx, number, act)
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return fmt.Errorf("there is no replay %d; \"waybill dead replays\" shows them", number)
	case err != nil:
		return err
	case p.json:
		return p.printJSON(map[string]any{"number": number, "cancelled": cancelled})
	case !cancelled:
		_, err = fmt.Fprintf(p.stdout, "Replay %d had ended already.\n", number)
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "Cancelled replay %d.\n", number)
	return err
}
