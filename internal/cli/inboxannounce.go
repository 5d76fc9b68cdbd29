package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/discovery"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/observe"
)

// announceFlags configure the announcement of an inbox service.
type announceFlags struct {
	on       bool
	url      string
	priority int
}

func (f *announceFlags) add(cmd *cobra.Command, all *pflag.FlagSet) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "announce", false, "let clients find the service over --broker")
	flags.StringVar(&f.url, "advertise-url", "", "with --announce: `URL` that clients are to use")
	addAlias(cmd, all, "discovery-bus", "bus")
	addAlias(cmd, all, "discovery-group", "group")
	flags.IntVar(&f.priority, "priority", 0, "with --announce: of several services, the one of the highest is chosen")
}

// announcing is an inbox service that is being announced. Nil announces nothing.
type announcing struct {
	broker    opener.Broker
	announcer *discovery.Announcer
	logger    *slog.Logger
	running   sync.WaitGroup
	cancel    context.CancelFunc
}

// prepare opens the broker, if the service is to be announced, with or without tokens. What it returns must be stopped.
func (f announceFlags) prepare(ctx context.Context, cfg *config.Config, tokens bool, logger *slog.Logger) (*announcing, error) {
	if !f.on {
		return nil, nil
	}
	if f.url == "" {
		return nil, usagef("--announce needs --advertise-url: what clients reach is not what this process listens on")
	}
	c, err := brokerConfig(cfg)
	if err != nil {
		return nil, err
	}
	c.Log = logger
	a := &announcing{logger: logger, cancel: func() {}}
	if a.broker, err = opener.OpenBroker(ctx, c); err != nil {
		return nil, err
	}
	if err := a.tell(f, cfg, tokens); err != nil {
		a.stop()
		return nil, usagef("%v", err)
	}
	return a, nil
}

func (a *announcing) tell(f announceFlags, cfg *config.Config, tokens bool) error {
	transport, err := opener.Discovery(a.broker)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	auth := discovery.AuthNone
	if tokens {
		auth = discovery.AuthBearer
	}
	a.announcer, err = discovery.NewAnnouncer(transport, discovery.AnnouncerConfig{
		Bus: cfg.String("discovery.bus"), Group: cfg.String("discovery.group"), Log: a.logger,
		Endpoint: discovery.Endpoint{
			Name: host, URL: f.url, Auth: auth, LeaseDefault: cfg.Duration("inbox.lease"), Priority: f.priority,
			RetentionDays: int(cfg.Duration("inbox.retention") / (24 * time.Hour)),
		},
	})
	return err
}

// start announces the service until ctx ends or stop is called.
func (a *announcing) start(ctx context.Context) {
	if a == nil {
		return
	}
	ctx, a.cancel = context.WithCancel(ctx)
	a.running.Go(func() {
		if err := a.announcer.Run(ctx); err != nil {
			a.logger.Error("inbox service is not announced", "error", observe.ErrorText(err))
		}
	})
}

// stop ends it and closes the broker.
func (a *announcing) stop() {
	if a == nil {
		return
	}
	a.cancel()
	a.running.Wait()
	_ = a.broker.Close() // nothing is in progress
}
