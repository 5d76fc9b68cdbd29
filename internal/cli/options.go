package cli

import (
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/relay"
)

// optionFlag holds the text that was given for an option; package config parses it.
type optionFlag struct {
	option config.Option
	text   string
}

func (f *optionFlag) String() string        { return f.text }
func (f *optionFlag) Set(text string) error { f.text = text; return nil }
func (f *optionFlag) Type() string {
	return [...]string{config.String: "text", config.Int: "number", config.Bool: "true|false", config.Duration: "duration"}[f.option.Kind]
}

// addOptions adds a flag for every option.
func addOptions(flags *pflag.FlagSet) {
	for _, o := range config.Options() {
		flag := flags.VarPF(&optionFlag{option: o, text: o.Default}, o.Flag(), "", o.Help)
		if o.Kind == config.Bool {
			flag.NoOptDefVal = "true"
		}
	}
}

// addShort adds the flags of a section of the options to a command under their names in the
// section: --to, for --push-to. Both set the same value.
func addShort(cmd *cobra.Command, all *pflag.FlagSet, section string) {
	all.VisitAll(func(f *pflag.Flag) {
		if name, found := strings.CutPrefix(f.Name, section+"-"); found {
			short := *f
			short.Name = name
			cmd.Flags().AddFlag(&short)
		}
	})
}

// addAlias adds the flag of an option to a command under another name as well.
func addAlias(cmd *cobra.Command, all *pflag.FlagSet, flag, name string) {
	alias := *all.Lookup(flag)
	alias.Name = name
	cmd.Flags().AddFlag(&alias)
}

// watch, which tests set, is called with each option that a command reads.
var watch func(cmd *cobra.Command, key string)

// settings loads the configuration of a command.
func (p *program) settings(cmd *cobra.Command) (*config.Config, error) {
	flags := make(map[string]string)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if o, ok := f.Value.(*optionFlag); ok {
			flags[o.option.Flag()] = o.text
		}
	})
	cfg, err := config.Load(flags, p.env, config.File(p.configFile, p.env))
	if err != nil {
		return nil, usagef("%v", err)
	}
	if !p.warned {
		p.warned = true
		for _, text := range cfg.Warnings() {
			p.logger(cfg).Warn(text)
		}
	}
	if watch != nil {
		cfg = cfg.Watch(func(key string) { watch(cmd, key) })
	}
	return cfg, nil
}

// storeConfig returns the settings of the store that the configuration names.
func storeConfig(cfg *config.Config) (opener.StoreConfig, error) {
	if cfg.String("store") == "" {
		return opener.StoreConfig{}, notSet("store", "postgres://user:password@host/database, or sqlite:path")
	}
	return opener.StoreConfig{
		URL: cfg.String("store"), Schema: cfg.String("schema"), TablePrefix: cfg.String("table_prefix"),
		ListenURL: cfg.String("postgres.listen_url"),
	}, nil
}

// openStore opens the store that the configuration of a command names.
func (p *program) openStore(cmd *cobra.Command) (opener.Store, *config.Config, error) {
	cfg, err := p.settings(cmd)
	if err != nil {
		return nil, nil, err
	}
	c, err := storeConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	store, err := p.open(cmd.Context(), c)
	return store, cfg, err
}

func notSet(option, example string) error {
	return usagef("no %s is set; give --%s, WAYBILL_%s, or %s: in %s, such as %s",
		option, option, strings.ToUpper(option), option, config.DefaultFile, example)
}

// renewAtMost is the longest time between two renewals of a lease, whatever the lease.
const renewAtMost = 2 * time.Second

// orders are the values of relay.order.
var orders = map[string]relay.OrderPolicy{"block": relay.Block, "park": relay.Park, "skip": relay.Skip}

// relayConfig turns options into the relay's configuration.
func relayConfig(cfg *config.Config) relay.Config {
	c := relay.Config{
		Node:           cfg.String("relay.node"),
		PollInterval:   cfg.Duration("relay.poll_interval"),
		BatchSize:      cfg.Int("relay.batch_size"),
		Parallelism:    cfg.Int("relay.parallelism"),
		LeaseTTL:       cfg.Duration("relay.lease"),
		PublishTimeout: cfg.Duration("relay.publish_timeout"),
		ShutdownGrace:  cfg.Duration("relay.shutdown_grace"),
		Retention:      cfg.Duration("outbox.retention"),
		Retry: waybill.RetryPolicy{
			MaxRetries: cfg.Int("relay.max_retries"),
			BaseDelay:  cfg.Duration("retry.base_delay"),
			MaxDelay:   cfg.Duration("retry.max_delay"),
		},
		CleanupInterval:    cfg.Duration("cleanup.interval"),
		CleanupBatchSize:   cfg.Int("cleanup.batch_size"),
		DisableCleanup:     !cfg.Bool("cleanup.enabled"),
		DisableDeadLetters: !cfg.Bool("dead_letter.enabled"),
		Order:              orders[cfg.String("relay.order")],
		MaxParkedMessages:  cfg.Int("relay.max_parked_messages"),
		MaxParkedKeys:      cfg.Int("relay.max_parked_keys"),
	}
	c.RenewInterval = min(renewAtMost, (c.LeaseTTL-c.PublishTimeout)/2)
	if cfg.String("relay.mode") == "strict" {
		c.Mode = relay.Strict
	}
	if c.Retry.MaxRetries == 0 {
		c.Retry.MaxRetries = waybill.NoRetries
	}
	if c.Retention == 0 {
		c.Retention = relay.KeepNothing
	}
	return c
}

// logger returns a logger to standard error as configured.
func (p *program) logger(cfg *config.Config) *slog.Logger {
	level := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}[cfg.String("log.level")]
	options := &slog.HandlerOptions{Level: level}
	if cfg.String("log.format") == "json" {
		return slog.New(slog.NewJSONHandler(p.stderr, options))
	}
	return slog.New(slog.NewTextHandler(p.stderr, options))
}
