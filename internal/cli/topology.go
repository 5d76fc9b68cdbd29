package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
)

func (p *program) topologyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "See and make what the broker needs: exchanges, queues, streams",
		Long: `See and make what the broker needs before messages flow, from what is published and received:

  waybill topology plan --topic orders --group billing=orders,payments --destination mailer

Nothing is ever deleted, and nothing that is set otherwise is changed: that is a conflict, and the
exit code is 1. What is not named is left alone.`,
		RunE: needsSubcommand,
	}
	cmd.AddCommand(
		p.topologyAction("plan", "Show what is missing, and change nothing", broker.Topology.Plan),
		p.topologyAction("apply", "Make what is missing, and show what was found and done", broker.Topology.Apply),
	)
	return cmd
}

// topologyFlags are the flags that say what a system publishes and receives.
type topologyFlags struct{ topics, destinations, groups []string }

func (p *program) topologyAction(name, short string,
	act func(broker.Topology, context.Context, broker.Wanted) ([]broker.Step, error)) *cobra.Command {
	var f topologyFlags
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			wanted, err := f.wanted()
			if err != nil {
				return err
			}
			cfg, err := p.settings(cmd)
			if err != nil {
				return err
			}
			open, address, err := openBrokerAsIs(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer open.Close()
			t, is := open.(broker.Topology)
			if !is {
				return usagef("the broker %s needs nothing declared", address)
			}
			steps, err := act(t, cmd.Context(), wanted)
			return p.printSteps(steps, err)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.topics, "topic", nil, "a `topic` that is published to; may be repeated")
	flags.StringArrayVar(&f.destinations, "destination", nil, "a `destination` that is sent to; may be repeated")
	flags.StringArrayVar(&f.groups, "group", nil, "a consumer group and its topics, as in `billing=orders,payments`; may be repeated")
	return cmd
}

func (f topologyFlags) wanted() (broker.Wanted, error) {
	w := broker.Wanted{Topics: f.topics, Destinations: f.destinations}
	for _, text := range f.groups {
		name, topics, found := strings.Cut(text, "=")
		sub := consumer.Subscription{Group: name, Topics: strings.Split(topics, ",")}
		if err := sub.Validate(); !found || err != nil {
			return w, usagef("--group is %q; it is a name and topics, as in billing=orders,payments", text)
		}
		w.Subscriptions = append(w.Subscriptions, sub)
	}
	if len(w.Topics)+len(w.Destinations)+len(w.Subscriptions) == 0 {
		return w, usagef("nothing is wanted; give --topic, --destination or --group")
	}
	return w, nil
}

// stepRow is a step in the JSON output.
type stepRow struct {
	Action broker.Action `json:"action"`
	Kind   string        `json:"kind"`
	Name   string        `json:"name"`
	Detail string        `json:"detail"`
}

// printSteps prints what Plan found or Apply did, even if err ended it, and fails if there is a
// conflict.
func (p *program) printSteps(steps []broker.Step, err error) error {
	if invalid := (*waybill.InvalidError)(nil); errors.As(err, &invalid) {
		return usagef("%v", err)
	}
	if len(steps) > 0 || err == nil {
		if err := p.printStepRows(steps); err != nil {
			return err
		}
	}
	if err == nil && slices.ContainsFunc(steps, func(s broker.Step) bool { return s.Action == broker.Conflict }) {
		return silent
	}
	return err
}

func (p *program) printStepRows(steps []broker.Step) error {
	rows, table := []stepRow{}, [][]string{}
	for _, s := range steps {
		rows = append(rows, stepRow{s.Action, s.Kind, s.Name, s.Detail})
		table = append(table, []string{string(s.Action), s.Kind, s.Name, s.Detail})
	}
	if p.json {
		return p.printJSON(rows)
	}
	return p.printTable([]string{"ACTION", "KIND", "NAME", "DETAIL"}, table)
}
