package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) deadAuditCommand() *cobra.Command {
	var f deadletter.AuditFilter
	cmd := &cobra.Command{Use: "audit", Short: "Show who has changed what, and why, the latest first"}
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.Action), "action", "", "only this one: "+ops.Words(ops.Actions()))
	flags.StringVar(&f.By, "actor", "", "only what this one has done")
	flags.Int64Var(&f.Letter, "letter", 0, "only entries about the dead letter with this `number`")
	flags.StringVar(&f.MessageID, "id", "", "only entries about the message with this `id`")
	flags.Int64Var(&f.Replay, "replay", 0, "only entries about the bulk replay with this `number`")
	flags.Int64Var(&f.Before, "before", 0, "only entries with a lower `number`, for paging")
	return p.lister(cmd, limit{&f.Limit, deadletter.DefaultLimit, "entries"}, func(ctx context.Context, store opener.Store) error {
		entries, err := store.AuditLog(ctx, f)
		if err != nil {
			return err
		}
		if more, err := printList(p, entries, ops.NoEntries, auditListing); err != nil || !more {
			return err
		}
		if len(entries) == f.Limit {
			p.hintf("There may be more: the same with --before %d", entries[len(entries)-1].Number)
		}
		return nil
	})
}

var auditListing = listing[deadletter.Entry]{
	[]string{"AT", "BY", "ACTION", "ABOUT", "WHY"},
	func(e deadletter.Entry) []string {
		return []string{ops.Moment(&e.At), e.By, string(e.Action), ops.About(&e), ops.Short(e.Why, 80)}
	},
}
