package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) inboxCommand(options *pflag.FlagSet) *cobra.Command {
	var f inboxFlags
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Run the inbox service, or show what consumers have done",
		Long: `Run the inbox service, version 1, until SIGINT or SIGTERM: programs in any language process a
message once by leasing its key, working, and marking it, over HTTP. docs/inbox-service.md has
the requests, and the service itself /v1/openapi.json.

The store may be sqlite:path (inbox.db unless one is named; made if it is not there),
postgres://…, mysql://…, redis://…, mongodb://… or memory:. Any number of services may share one.
Processed keys are kept for inbox.retention; each service removes what is older, every
cleanup.interval.

With --announce it tells clients of itself over --broker, and answers those who ask
(docs/discovery.md); it then needs --advertise-url, and never tells a token.

Without tokens it serves this machine only, and everybody on it. The file of tokens, readable by
its owner only, is YAML or JSON:

    tokens:
      - name: billing
        sha256: 5e88…        # of the token; or token: and the token itself, of at least 20 bytes
        tenants: [acme]      # limits to keys of the form that Waybill makes; all if left out
        buses: [orders]
        groups: [billing]`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.serveInbox(cmd, f) }),
	}
	f.add(cmd, options)
	cmd.AddCommand(p.inboxShowCommand())
	return cmd
}

func (p *program) inboxShowCommand() *cobra.Command {
	var consumer string
	var find messageSearch
	cmd := &cobra.Command{
		Use:   "show {ID | FILTER}",
		Short: "Show what consumers have done with a message",
		Long: `Show what consumers have done with the message that has this id or idempotency key: processed
and when, dead, or failed so far and when the next attempt is due. It reads the whole inbox.

An inbox knows neither keys nor correlation ids: with --key, --correlation-id or --text the
messages are looked for in the outbox and the dead letters of the same store, as long as they are kept
there, and each is then looked for in the inbox.`,
		Args: cobra.MaximumNArgs(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if given := find.given(); given == (len(args) == 1) {
				return usagef("give the id of a message, or --key, --correlation-id or --text")
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, args []string) error {
				return p.inboxShow(cmd.Context(), store, args, find, consumer)
			})(cmd, args)
		}),
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "only this consumer")
	find.addTo(cmd.Flags())
	return cmd
}

func (p *program) inboxShow(ctx context.Context, store opener.Store, ids []string, find messageSearch, consumer string) (err error) {
	if len(ids) == 0 {
		if ids, err = find.ids(ctx, store); err != nil {
			return err
		}
		if len(ids) == 0 {
			return errors.New("no message matches; what was published is known as long as it is kept")
		}
	}
	states := []inspect.InboxState{}
	for _, id := range ids {
		list, err := store.InboxStates(ctx, id, consumer)
		if err != nil {
			return err
		}
		states = append(states, list...)
	}
	if len(states) == 0 {
		return fmt.Errorf("no consumer has received the message %s, or it is longer ago than the inbox remembers", strings.Join(quotedAll(ids), ", "))
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
	if len(ids) == 1 {
		for _, row := range rows {
			row[0] = "" // it was named
		}
	}
	if err := p.printTable([]string{"MESSAGE", "CONSUMER", "STATE", "AT", "ATTEMPTS", "NEXT DUE", "TYPE", "SOURCE", "TENANT", "ERROR"}, rows); err != nil {
		return err
	}
	if dead {
		p.hintf("Why it is dead: waybill dead list %s", find.typed(ids[0]))
	}
	return nil
}

func inboxColumns(s inspect.InboxState) []string {
	state, at, attempts := "failed so far", "", ops.Count(s.Attempts)
	switch {
	case s.ProcessedAt != nil:
		state, at, attempts = "processed", ops.Moment(s.ProcessedAt), ""
	case s.DeadAt != nil:
		state, at, attempts = "dead", ops.Moment(s.DeadAt), ""
	}
	return []string{cmp.Or(s.MessageID, s.Message), s.Consumer, state, at, attempts, ops.Moment(s.DueAt), s.Alias, s.Source, s.Tenant, ops.Short(s.Error, 60)}
}
