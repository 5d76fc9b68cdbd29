package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) outboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show what the outbox holds, and cancel messages",
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(
		p.repeats(&cobra.Command{
			Use:   "stats",
			Short: "Count messages by topic and status",
			Long: `Count messages by topic and status, and the open dead letters of consumers. OLDEST is how long ago
the oldest was enqueued or, if it was scheduled, came due.`,
			Args: cobra.NoArgs,
		}, p.withTables(p.outboxStats)),
		p.outboxListCommand(),
		&cobra.Command{
			Use:   "show ID",
			Short: "Show a message's whole life",
			Long: `Show where the message with this id is, and what has become of it so far: when it was enqueued
and published, which consumers have processed it, where it is a dead letter, and who has done
what about that.`,
			Args: takes(1),
			RunE: does(p.withTables(p.outboxShow)),
		},
		p.outboxCancelCommand(),
	)
	return cmd
}

func (p *program) outboxListCommand() *cobra.Command {
	var f inspect.Filter
	var olderThan, status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages in flight, the oldest first",
		Long: `List messages in flight (Pending, Waiting, Scheduled), the oldest first, or those
with another --status. Published ones come with the latest first.`,
	}
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only messages with this status: "+statusWords)
	flags.StringVar(&f.Topic, "topic", "", "only messages of this topic, or to this destination")
	flags.StringVar(&f.Tenant, "tenant", "", "only messages of this tenant")
	flags.StringVar(&f.Key, "key", "", "only messages with this key")
	flags.StringVar(&f.CorrelationID, "correlation-id", "", "only messages of this flow")
	flags.StringVar(&f.MessageID, "id", "", "only the message with this `id`")
	flags.StringVar(&f.Text, "text", "", "only messages with this text in id, key or correlation id")
	flags.StringVar(&olderThan, "older-than", "0s", "only messages enqueued longer ago than this `duration`")
	return p.lister(cmd, limit{&f.Limit, inspect.DefaultLimit, "messages"}, func(ctx context.Context, store opener.Store) error {
		return p.outboxList(ctx, store, f)
	}, func() (err error) {
		if f.Status, err = readStatus(status); err != nil {
			return err
		}
		if f.OlderThan, err = config.ParseDuration(olderThan); err != nil {
			return usagef("--older-than is %q; it is a duration such as 90s or 2d", olderThan)
		}
		return flagError(f.Check())
	})
}

var statusWords = strings.ToLower(ops.Words(inspect.Statuses()))

// readStatus parses a status in any case.
func readStatus(text string) (inspect.Status, error) {
	if text == "" {
		return "", nil
	}
	for _, s := range inspect.Statuses() {
		if strings.EqualFold(text, string(s)) {
			return s, nil
		}
	}
	return "", usagef("--status is %q; it is one of %s", text, statusWords)
}

func (p *program) outboxList(ctx context.Context, store opener.Store, f inspect.Filter) error {
	states, err := store.OutboxMessages(ctx, f)
	if err != nil {
		return err
	}
	if more, err := printList(p, states, ops.NoMessages, messageListing); err != nil || !more {
		return err
	}
	if len(states) == f.Limit {
		p.hintf("There may be more: narrow the list, or give a higher --limit.")
	}
	return nil
}

var messageListing = listing[inspect.MessageState]{
	[]string{"ID", "STATUS", "TOPIC", "DESTINATION", "KEY", "ENQUEUED", "DUE/PUBLISHED", "ATTEMPTS", "ERROR"},
	func(s inspect.MessageState) []string {
		moves := s.DueAt
		if s.PublishedAt != nil {
			moves = s.PublishedAt
		}
		return []string{
			s.ID, string(s.Status), s.Topic, s.Destination, s.Key, ops.Moment(&s.EnqueuedAt), ops.Moment(moves), ops.Count(s.Attempts), ops.Short(s.Error, 60),
		}
	},
}

func (p *program) outboxStats(cmd *cobra.Command, store opener.Store, _ []string) error {
	stats, err := store.OutboxStats(cmd.Context())
	if err != nil {
		return err
	}
	_, err = printList(p, stats, ops.OutboxEmpty, statsListing)
	return err
}

var statsListing = listing[inspect.Stats]{
	[]string{"TOPIC", "STATUS", "CONSUMER", "COUNT", "OLDEST"},
	func(s inspect.Stats) []string {
		oldest := ops.Age(s.Oldest)
		if s.Status == inspect.Scheduled && s.Oldest < 0 {
			oldest = "due in " + ops.Age(-s.Oldest)
		}
		return []string{s.Topic, string(s.Status), s.Consumer, ops.Count(s.Count), oldest}
	},
}
