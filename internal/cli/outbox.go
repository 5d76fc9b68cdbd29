package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
)

func (p *program) outboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show what the outbox holds",
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "stats",
			Short: "Count messages by topic and status",
			Args:  cobra.NoArgs,
			RunE:  does(p.withTables(p.outboxStats)),
		},
		&cobra.Command{
			Use:   "show ID",
			Short: "Show where a message is",
			Args:  cobra.ExactArgs(1),
			RunE:  does(p.withTables(p.outboxShow)),
		},
	)
	return cmd
}

// withTables opens the store for fn and makes sure that it has its tables.
func (p *program) withTables(fn func(cmd *cobra.Command, store opener.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		store, _, err := p.openStore(cmd)
		if err != nil {
			return err
		}
		defer store.Close()
		if err := checkSchema(cmd.Context(), store); err != nil {
			return err
		}
		return fn(cmd, store, args)
	}
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
	rows := make([][]string, len(stats))
	for i, s := range stats {
		rows[i] = []string{s.Topic, string(s.Status), strconv.FormatInt(s.Count, 10), age(s.Oldest)}
	}
	return p.printTable([]string{"TOPIC", "STATUS", "COUNT", "OLDEST"}, rows)
}

func (p *program) outboxShow(cmd *cobra.Command, store opener.Store, args []string) error {
	states, err := store.MessageStates(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	if len(states) == 0 {
		return fmt.Errorf("there is no message with the id %q", args[0])
	}
	if p.json {
		return p.printJSON(states)
	}
	for i, s := range states {
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		if err := p.printState(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) printState(s outbox.State) error {
	attempts := ""
	if s.Attempts > 0 {
		attempts = strconv.Itoa(s.Attempts)
	}
	return p.printFields([][2]string{
		{"id", s.ID},
		{"status", string(s.Status)},
		{"topic", s.Topic},
		{"destination", s.Destination},
		{"type", s.Type},
		{"source", s.Source},
		{"tenant", s.Tenant},
		{"key", s.Key},
		{"enqueued", moment(&s.EnqueuedAt)},
		{"due", moment(s.DueAt)},
		{"published", moment(s.PublishedAt)},
		{"failed attempts", attempts},
		{"last error", short(s.Error, 200)},
	})
}
