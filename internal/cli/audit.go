package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

func (p *program) deadAuditCommand() *cobra.Command {
	var f deadletter.AuditFilter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who has changed what, and why, the latest first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadAudit(cmd.Context(), store, f)
			})(cmd, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.Action), "action", "", "only this one: requeue, resolve, discard, edit, replay, cancel, reveal, effect, cleanup, message_cancel, schedule_pause, schedule_resume, schedule_run, schedule_remove, schedule_cancel, saga_resume, saga_compensate")
	flags.StringVar(&f.By, "actor", "", "only what this one has done")
	flags.Int64Var(&f.Letter, "letter", 0, "only entries about the dead letter with this `number`")
	flags.StringVar(&f.MessageID, "id", "", "only entries about the message with this `id`")
	flags.Int64Var(&f.Replay, "replay", 0, "only entries about the bulk replay with this `number`")
	flags.Int64Var(&f.Before, "before", 0, "only entries with a lower `number`, for paging")
	addLimit(flags, &f.Limit, deadletter.DefaultLimit, "entries")
	return cmd
}

func (p *program) deadAudit(ctx context.Context, store opener.Store, f deadletter.AuditFilter) error {
	entries, err := store.AuditLog(ctx, f)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]deadletter.Entry{}, entries...))
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(p.stdout, "The audit log has no such entry.")
		return err
	}
	if err := p.printAudit(entries); err != nil {
		return err
	}
	if len(entries) == f.Limit {
		p.hintf("There may be more: the same with --before %d", entries[len(entries)-1].Number)
	}
	return nil
}

func (p *program) printAudit(entries []deadletter.Entry) error {
	rows := make([][]string, len(entries))
	for i, e := range entries {
		rows[i] = []string{moment(&e.At), e.By, string(e.Action), aboutWhat(e), short(e.Why, 80)}
	}
	return p.printTable([]string{"AT", "BY", "ACTION", "ABOUT", "WHY"}, rows)
}

// aboutWhat names what an entry is about.
func aboutWhat(e deadletter.Entry) string {
	var parts []string
	if e.Letter != 0 {
		parts = append(parts, fmt.Sprintf("letter %d", e.Letter))
	}
	if e.MessageID != "" {
		parts = append(parts, "message "+e.MessageID)
	}
	if e.Replay != 0 {
		parts = append(parts, fmt.Sprintf("replay %d", e.Replay))
	}
	if e.Detail != "" {
		parts = append(parts, short(e.Detail, 60))
	}
	return strings.Join(parts, ", ")
}

// noteReveal notes who looks at something confidential of what e is about. If it fails that is not
// to be shown.
func noteReveal(ctx context.Context, log deadletter.Auditor, act deadletter.Act, what string, e deadletter.Entry) error {
	e.Action, e.By, e.Why = deadletter.ActReveal, act.By, act.Why
	if err := log.RecordAudit(ctx, e); err != nil {
		return fmt.Errorf("the %s is not shown, because that can't be noted in the audit log: %w", what, err)
	}
	return nil
}
