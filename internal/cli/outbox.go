package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/outbox"
)

func (p *program) outboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show what the outbox holds, and cancel messages",
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "stats",
			Short: "Count messages by topic and status",
			Long: `Count messages by topic and status, and the open dead letters of consumers. OLDEST is how long ago
the oldest was enqueued or, if it was scheduled, came due.`,
			Args: cobra.NoArgs,
			RunE: does(p.withTables(p.outboxStats)),
		},
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
	var f outbox.Filter
	var olderThan, status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages that are on their way, the oldest first",
		Long: `List messages that are on their way (Pending, Waiting, Scheduled), the oldest first, or those
with another --status. Published ones come with the latest first.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) (err error) {
			if f.Status, err = readStatus(status); err != nil {
				return err
			}
			if f.OlderThan, err = config.ParseDuration(olderThan); err != nil {
				return usagef("--older-than is %q; it is a duration such as 90s or 2d", olderThan)
			}
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			if err := flagError(f.Check()); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.outboxList(cmd.Context(), store, f)
			})(cmd, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only messages with this status: "+statusWords())
	flags.StringVar(&f.Topic, "topic", "", "only messages of this topic, or to this destination")
	flags.StringVar(&f.Tenant, "tenant", "", "only messages of this tenant")
	flags.StringVar(&f.Key, "key", "", "only messages with this key")
	flags.StringVar(&f.CorrelationID, "correlation-id", "", "only messages of this flow")
	flags.StringVar(&f.MessageID, "id", "", "only the message with this `id`")
	flags.StringVar(&f.Text, "text", "", "only messages with this text in id, key or correlation id")
	flags.StringVar(&olderThan, "older-than", "0s", "only messages enqueued longer ago than this `duration`")
	addLimit(flags, &f.Limit, outbox.DefaultLimit, "messages")
	return cmd
}

func statusWords() string {
	var words []string
	for _, s := range outbox.Statuses() {
		words = append(words, strings.ToLower(string(s)))
	}
	return strings.Join(words, ", ")
}

// readStatus reads a status whatever its case.
func readStatus(text string) (outbox.Status, error) {
	if text == "" {
		return "", nil
	}
	for _, s := range outbox.Statuses() {
		if strings.EqualFold(text, string(s)) {
			return s, nil
		}
	}
	return "", usagef("--status is %q; it is one of %s", text, statusWords())
}

func (p *program) outboxList(ctx context.Context, store opener.Store, f outbox.Filter) error {
	states, err := store.OutboxMessages(ctx, f)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]outbox.State{}, states...))
	}
	if len(states) == 0 {
		_, err := fmt.Fprintln(p.stdout, "No message matches.")
		return err
	}
	rows := make([][]string, len(states))
	for i, s := range states {
		rows[i] = []string{s.ID, string(s.Status), s.Topic, s.Destination, s.Key, moment(&s.EnqueuedAt), movesAt(s), thousands(s.Attempts), short(s.Error, 60)}
	}
	if err := p.printTable([]string{"ID", "STATUS", "TOPIC", "DESTINATION", "KEY", "ENQUEUED", "DUE/PUBLISHED", "ATTEMPTS", "ERROR"}, rows); err != nil {
		return err
	}
	if len(states) == f.Limit {
		p.hintf("There may be more: narrow the list, or give a higher --limit.")
	}
	return nil
}

// movesAt is when a message was published, or is due.
func movesAt(s outbox.State) string {
	if s.PublishedAt != nil {
		return moment(s.PublishedAt)
	}
	return moment(s.DueAt)
}

func (p *program) outboxStats(cmd *cobra.Command, store opener.Store, _ []string) error {
	stats, err := store.OutboxStats(cmd.Context())
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]outbox.Stats{}, stats...))
	}
	if len(stats) == 0 {
		_, err := fmt.Fprintln(p.stdout, "The outbox is empty.")
		return err
	}
	return p.printStats(stats)
}

func (p *program) printStats(stats []outbox.Stats) error {
	rows := make([][]string, len(stats))
	for i, s := range stats {
		rows[i] = []string{s.Topic, string(s.Status), s.Consumer, thousands(s.Count), oldest(s)}
	}
	return p.printTable([]string{"TOPIC", "STATUS", "CONSUMER", "COUNT", "OLDEST"}, rows)
}

// oldest is the age of the oldest message, or when the first one comes due.
func oldest(s outbox.Stats) string {
	if s.Status == outbox.Scheduled && s.Oldest < 0 {
		return "due in " + age(-s.Oldest)
	}
	return age(s.Oldest)
}
