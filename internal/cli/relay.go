package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/observe/promobserve"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/relay/record"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/service"
)

// relaySource names the relay's service. It enqueues nothing, so no message has
// this source.
const relaySource = "waybill-relay"

func (p *program) relayCommand(options *pflag.FlagSet) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Publish committed messages until stopped",
		Long: `Publish the messages that are committed in --store to --broker until SIGINT or SIGTERM.
The relay then takes up nothing new, finishes what is in flight, and gives its share back
to other relays. Any number of relays may run on one store. Unless schedule.enabled is false it
also enqueues what recurring schedules plan.

The configuration file may name several brokers, each with its topics, in the list "routes",
and subscribers that messages are posted to in the list "webhooks".

With --metrics-listen it serves /metrics for Prometheus, and /health/live and /health/ready
for an orchestrator.

With --record it records what its decisions are made of in a file of limited size, which may stay on:
"waybill relay replay" shows from it why a message went where it went. The file has no payloads, headers or
texts of errors, and keys and tenants as hashes.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.relay(cmd) }),
	}
	for _, name := range []string{"record", "record-size", "record-keys"} {
		addAlias(cmd, options, "relay-"+name, name)
	}
	cmd.AddCommand(p.relayStatusCommand(), p.relayReplayCommand())
	return cmd
}

func (p *program) relay(cmd *cobra.Command) error {
	store, cfg, err := p.openStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := checkSchema(cmd.Context(), store); err != nil {
		return err
	}
	logger := p.logger(cfg)
	to, err := openTarget(cmd.Context(), cfg, logger)
	if err != nil {
		return err
	}
	defer to.close()
	address, err := monitorAddress(cfg)
	if err != nil {
		return err
	}
	relaySettings := relayConfig(cfg)
	stopRecording, err := startRecording(cfg, &relaySettings, logger)
	if err != nil {
		return err
	}
	defer stopRecording()
	count := &outcomes{}
	metrics := promobserve.New(promobserve.Config{})
	observer, stopTraces := p.observer(logger, relaySource, cfg.String("broker"), count, metrics)
	defer stopTraces()
	svc, err := store.Service(to.broker, service.Config{
		Source:           relaySource,
		Destinations:     to.destinations,
		Relay:            relaySettings,
		DisableReplays:   !cfg.Bool("dead_letter.replays"),
		DisableSchedules: !cfg.Bool("schedule.enabled"),
		Schedules:        schedule.RunnerConfig{PollInterval: cfg.Duration("schedule.poll_interval"), BatchSize: cfg.Int("schedule.batch_size")},
		Janitor:          janitorConfig(cfg),
		Consumer:         consumer.Config{AllowShortRetention: cfg.Bool("inbox.allow_short_retention")},
		Observer:         observer,
	})
	if err != nil {
		return err
	}
	if address != "" {
		m := monitored{observer: metrics, store: store, runner: svc, clock: opener.IsPostgres(cfg.String("store"))}
		stop, err := serve(cmd.Context(), address, m.handler(), logger)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		defer stop()
	}
	logger.Info("relay is running", "store", store.Address(), "broker", redact.URL(cfg.String("broker")), "destinations", to.names())
	err = svc.Run(cmd.Context())
	logger.Info("relay has stopped", "published", count.published.Load(), "dead", count.dead.Load())
	if err != nil {
		return err
	}
	return p.printOutcomes(count)
}

// startRecording records a relay, if the configuration names a file.
func startRecording(cfg *config.Config, to *relay.Config, logger *slog.Logger) (stop func(), err error) {
	path := cfg.String("relay.record")
	if path == "" {
		return func() {}, nil
	}
	to.Recorder, err = record.Open(path, record.Config{Size: int64(cfg.Int("relay.record_size")) << 20, PlainKeys: cfg.Bool("relay.record_keys")})
	if err != nil {
		return nil, err
	}
	return func() {
		if err := to.Recorder.Close(); err != nil {
			logger.Warn("the end of the relay's recording was not written", "error", err)
		}
	}, nil
}

func (p *program) printOutcomes(count *outcomes) error {
	published, dead := count.published.Load(), count.dead.Load()
	if p.json {
		return p.printJSON(map[string]int64{"published": published, "dead": dead})
	}
	_, err := fmt.Fprintf(p.stdout, "Published %s, dead-lettered %s.\n", ops.Plural(published, "message"), ops.Count(dead))
	return err
}

// outcomes counts what a relay has done.
type outcomes struct{ published, dead atomic.Int64 }

var _ observe.Observer = (*outcomes)(nil)

func (o *outcomes) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (o *outcomes) Observe(_ context.Context, e observe.Event) {
	switch e.Op {
	case observe.OpPublish:
		if e.Err == nil {
			o.published.Add(int64(e.Count))
		}
	case observe.OpDead, observe.OpFailed:
		o.dead.Add(int64(e.Count))
	}
}
