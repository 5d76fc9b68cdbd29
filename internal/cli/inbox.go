package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

func (p *program) inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Show what consumers have done",
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(p.inboxShowCommand())
	return cmd
}

func (p *program) inboxShowCommand() *cobra.Command {
	var consumer string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show what consumers have done with a message",
		Long: `Show what consumers have done with the message that has this id or idempotency key: processed
and when, dead, or failed so far and when the next attempt is due. It reads the whole inbox.`,
		Args: cobra.ExactArgs(1),
		RunE: does(p.withTables(func(cmd *cobra.Command, store opener.Store, args []string) error {
			return p.inboxShow(cmd.Context(), store, args[0], consumer)
		})),
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "only this consumer")
	return cmd
}

func (p *program) inboxShow(ctx context.Context, store opener.Store, id, consumer string) error {
	states, err := store.InboxStates(ctx, id, consumer)
	if err != nil {
		return err
	}
	if len(states) == 0 {
		return fmt.Errorf("no consumer has received the message %q, or it is longer ago than the inbox remembers", id)
	}
	if p.json {
		return p.printJSON(states)
	}
	rows := make([][]string, len(states))
	dead := false
	for i, s := range states {
		rows[i] = inboxColumns(s)
		dead = dead || s.DeadAt != nil
	}
	if err := p.printTable([]string{"CONSUMER", "STATE", "AT", "ATTEMPTS", "NEXT DUE", "TYPE", "SOURCE", "TENANT", "ERROR"}, rows); err != nil {
		return err
	}
	if dead {
		p.hintf("Why it is dead: waybill dead list --id %s", quoted(id))
	}
	return nil
}

func inboxColumns(s inbox.State) []string {
	state, at, attempts := "failed so far", "", strconv.Itoa(s.Attempts)
	switch {
	case s.ProcessedAt != nil:
		state, at, attempts = "processed", moment(s.ProcessedAt), ""
	case s.DeadAt != nil:
		state, at, attempts = "dead", moment(s.DeadAt), ""
	}
	return []string{s.Consumer, state, at, attempts, moment(s.DueAt), s.Alias, s.Source, s.Tenant, short(s.Error, 60)}
}
