package cli

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/service"
)

// relaySource names the relay's service. It enqueues nothing, so no message has it.
const relaySource = "waybill-relay"

func (p *program) relayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Publish committed messages until stopped",
		Long: `Publish the messages that are committed in --store to --broker until SIGINT or SIGTERM.
The relay then takes up nothing new, finishes what is on its way, and gives its share back
to other relays. Any number of relays may run on one store.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.relay(cmd) }),
	}
	cmd.AddCommand(p.relayStatusCommand())
	return cmd
}

func (p *program) relay(cmd *cobra.Command) error {
	store, broker, cfg, err := p.openBoth(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	defer broker.Close()
	logger := p.logger(cfg)
	count := &outcomes{}
	svc, err := store.Service(broker, service.Config{
		Source:         relaySource,
		Relay:          relayConfig(cfg),
		DisableReplays: !cfg.Bool("dead_letter.replays"),
		Observer:       waybill.Observers(waybill.LogTo(logger), count),
	})
	if err != nil {
		return err
	}
	logger.Info("relay is running", "store", store.Address(), "broker", config.Redact(cfg.String("broker")))
	err = svc.Run(cmd.Context())
	logger.Info("relay has stopped", "published", count.published.Load(), "dead", count.dead.Load())
	if err != nil {
		return err
	}
	return p.printOutcomes(count)
}

func (p *program) printOutcomes(count *outcomes) error {
	published, dead := count.published.Load(), count.dead.Load()
	if p.json {
		return p.printJSON(map[string]int64{"published": published, "dead": dead})
	}
	_, err := fmt.Fprintf(p.stdout, "Published %s, gave up on %d.\n", plural(int(published), "message"), dead)
	return err
}

// openBoth opens the store, whose schema must fit, and the broker.
func (p *program) openBoth(cmd *cobra.Command) (opener.Store, opener.Broker, *config.Config, error) {
	store, cfg, err := p.openStore(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	broker, err := openBrokerFor(cmd.Context(), store, cfg)
	if err != nil {
		_ = store.Close() // nothing was done with it
		return nil, nil, nil, err
	}
	return store, broker, cfg, nil
}

func openBrokerFor(ctx context.Context, store opener.Store, cfg *config.Config) (opener.Broker, error) {
	c, err := brokerConfig(cfg)
	if err != nil {
		return nil, err
	}
	if opener.BrokerKind(c.URL) == opener.Memory {
		return nil, usagef("the broker mem: lives in one process, where nobody could receive what this relay publishes")
	}
	if err := checkSchema(ctx, store); err != nil {
		return nil, err
	}
	return opener.OpenBroker(ctx, c)
}

// outcomes counts what a relay has done.
type outcomes struct{ published, dead atomic.Int64 }

var _ waybill.Observer = (*outcomes)(nil)

func (o *outcomes) Start(ctx context.Context, _ waybill.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (o *outcomes) Observe(_ context.Context, e waybill.Event) {
	switch e.Op {
	case waybill.OpPublish:
		if e.Err == nil {
			o.published.Add(int64(e.Count))
		}
	case waybill.OpDead, waybill.OpFailed:
		o.dead.Add(int64(e.Count))
	}
}
