package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/traffic"
)

func (p *program) trafficCommand() *cobra.Command {
	var selected traffic.Selection
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "traffic",
		Short: "Show how much was published and handled, how fast, and what waited",
		Long: `Show how many messages per second were enqueued, published and handled, how many attempts failed, how
long messages took from their enqueue until the broker's confirm and until they were handled (half of them
at most P50, 99 of 100 at most P99), and the largest backlog. Lines are minutes; beyond an hour and a half they are
ten minutes, and beyond two days hours. Intervals in which nothing happened are left out, but not with --json.

Relays and services record this in the store each minute; it is kept for a year.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.DurationVar(&since, "since", time.Hour, "how far to look back, 1m to 8784h")
	flags.StringVar(&selected.Topic, "topic", "", "only this `topic`, or destination of a message")
	flags.StringVar(&selected.Consumer, "consumer", "", "only what this `consumer` has handled")
	flags.StringVar(&selected.Relay, "relay", "", "only what this `relay` has published")
	cmd.MarkFlagsMutuallyExclusive("topic", "consumer", "relay")
	cmd.RunE = does(p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		return p.traffic(cmd.Context(), store, selected, since)
	}))
	return cmd
}

func (p *program) traffic(ctx context.Context, store opener.Store, selected traffic.Selection, since time.Duration) error {
	kept, ok := store.(traffic.Store)
	if !ok {
		return errors.New("this store keeps no traffic")
	}
	h, err := traffic.Load(ctx, kept, since, p.now())
	if err != nil {
		return err
	}
	rows := ops.TrafficRows(&h, selected)
	if !p.json {
		rows = ops.Busy(rows)
	}
	_, err = printList(p, rows, ops.NoTraffic, trafficListing)
	return err
}

var trafficListing = listing[ops.TrafficRow]{
	strings.Split("FROM|ENQUEUED/S|PUBLISHED/S|HANDLED/S|FAILED|RETRIED|DEAD|BACKLOG|OLDEST|PUBLISH P50|PUBLISH P99|HANDLE P50|HANDLE P99", "|"),
	func(r ops.TrafficRow) []string {
		return []string{
			ops.Moment(&r.At), ops.Rate(r.PerSecond(r.Enqueued)), ops.Rate(r.PerSecond(r.Published)), ops.Rate(r.PerSecond(r.Handled)),
			ops.Count(r.Failed), ops.Count(r.Retried), ops.Count(r.Dead), ops.Count(r.Backlog), ops.Lag(r.Oldest),
			ops.Lag(r.PublishP50), ops.Lag(r.PublishP99), ops.Lag(r.HandleP50), ops.Lag(r.HandleP99),
		}
	},
}
