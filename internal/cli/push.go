package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/httpserve"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/observe/health"
	"github.com/waybill-go/waybill/observe/promobserve"
	"github.com/waybill-go/waybill/push"
)

func (p *program) pushCommand(options *pflag.FlagSet) *cobra.Command {
	var tls listenFlags
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Push messages to browsers and programs until stopped",
		Long: `Push the messages of --topics from --broker to the clients that are connected at --to, until
SIGINT or SIGTERM: by Server-Sent Events (sse://127.0.0.1:8090/events), and by SignalR
(signalr://127.0.0.1:8090/push) in the program that this makes:

    ` + installSignalR + `

Push is best effort: whoever is not connected misses a message. With --store, the PostgreSQL of the
service that enqueues, clients that connect again catch up what they have missed meanwhile.

Each process needs a --group of its own, which stays the same when it is started again: it reaches
its own clients only, so each has to receive all messages. Two with one group would share them.

A client proves who it is by a token: a bearer token, or where it can send no header the cookie, or
the parameter of the URL, access_token. The file of tokens, readable by its owner only, is YAML or
JSON, and a client sees no more than its token grants:

    tokens:
      - name: ann
        sha256: 5e88…        # of the token; or token: and the token itself, of at least 20 bytes
        topics: [orders]     # required
        user: ann            # for messages to users
        groups: [admins]     # for messages to groups
        tenant: acme         # whose messages; those without a tenant if left out

Without tokens it serves this machine only, and only with --allow-anonymous: everybody on it then
sees every topic.

/health/live and /health/ready are there for an orchestrator, and with --metrics-listen /metrics for
Prometheus. Without --tls-cert and --tls-key leave TLS to a proxy.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.push(cmd, tls) }),
	}
	addShort(cmd, options, "push")
	cmd.Flags().StringVar(&tls.cert, "tls-cert", "", "`file` of the certificate, to speak TLS")
	cmd.Flags().StringVar(&tls.key, "tls-key", "", "`file` of its key")
	return cmd
}

// push serves clients until it is stopped.
func (p *program) push(cmd *cobra.Command, tls listenFlags) error {
	ctx := cmd.Context()
	cfg, err := p.settings(cmd)
	if err != nil {
		return err
	}
	s, err := p.pushSettings(cfg, tls)
	if err != nil {
		return err
	}
	metrics, err := monitorAddress(cfg)
	if err != nil {
		return err
	}
	logger := p.logger(cfg)
	broker, err := openPushBroker(ctx, cfg, logger)
	if err != nil {
		return err
	}
	defer broker.Close()
	archive, closeStore, err := p.openArchive(cmd, cfg)
	if err != nil {
		return err
	}
	defer closeStore()

	hub, err := push.New(push.Config{Authorize: s.authorize, Archive: archive, AllowedOrigins: s.origins, Log: logger})
	if err != nil {
		return usagef("%v", err)
	}
	defer hub.Close()
	counts := promobserve.New(promobserve.Config{})
	observer, stopTraces := p.observer(logger, "waybill-push", cfg.String("broker"), counts)
	defer stopTraces()
	receiver, err := consumer.New(broker, s.subscription, unrecorded{}, push.Handler[struct{}](hub), consumer.Config{
		Order: consumer.OrderByKey, AllowShortRetention: true, Observer: observer,
	})
	if err != nil {
		return usagef("%v", err)
	}
	if metrics != "" {
		stop, err := serve(ctx, metrics, metricsOf(counts), logger)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		defer stop()
	}
	tokensFile := cfg.String("push.tokens_file")
	stop := watchTokens(ctx, tokensFile, logger, func() error {
		tokens, err := pushTokens(tokensFile, s.subscription.Topics)
		if err == nil {
			s.access.replace(tokens, hub)
		}
		return err
	})
	defer stop()
	err = servePush(ctx, s, hub, receiver, logger)
	stats := hub.Stats()
	logger.Info("push has stopped", "pushed", stats.Pushed, "slow", stats.Slow, "resets", stats.Resets)
	return err
}

// servePush serves the clients of a hub, and receives the messages to push, until ctx is done.
func servePush(ctx context.Context, s pushSettings, hub *push.Hub, receiver *consumer.Consumer[struct{}], logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	clients, err := s.protocol.Handler(ctx, hub, s.path, s.origins)
	if err != nil {
		return err
	}
	if s.inTheClear() {
		logger.Warn("tokens travel in the clear unless something in front of this service speaks TLS; give --tls-cert and --tls-key")
	}
	server := httpserve.New(s.routes(clients, receiver.Health), logger)
	server.RegisterOnShutdown(func() { _ = hub.Close() })
	return serveUntil(ctx, server, s.listenFlags, func(url string) {
		logger.Info("push is running", "protocol", s.protocol.Scheme, "url", strings.TrimSuffix(url, "/")+s.path,
			"topics", strings.Join(s.subscription.Topics, ","), "group", s.subscription.Group, "tokens", s.tokens)
		receiving.Go(func() { _ = receiver.Run(ctx) }) // it retries every failure
	})
}

// openPushBroker opens the broker that messages are received from. New groups begin with what is
// published from now on, where the broker supports that: no client was connected before.
func openPushBroker(ctx context.Context, cfg *config.Config, log *slog.Logger) (opener.Broker, error) {
	c, err := brokerConfig(cfg)
	if err != nil {
		return nil, err
	}
	switch opener.BrokerKind(c.URL) {
	case opener.Memory:
		return nil, usagef("the broker mem: lives in one process, where nobody could publish what this one pushes")
	case opener.Webhook:
		return nil, usagef("messages are received from a broker; %s is where webhooks are posted to", redact.URL(c.URL))
	}
	c.NATS.DeliverNew, c.Kafka.DeliverNew, c.Log = true, true, log
	return opener.OpenBroker(ctx, c)
}

// openArchive opens the store that clients catch up from, nil if none is named.
func (p *program) openArchive(cmd *cobra.Command, cfg *config.Config) (push.Archive, func(), error) {
	if cfg.String("store") == "" {
		return nil, func() {}, nil
	}
	store, _, err := p.openStore(cmd)
	if err != nil {
		return nil, nil, err
	}
	archive, ok := store.(push.Archive)
	if !ok {
		err = usagef("clients cannot catch up from the store %s, but from PostgreSQL; --store= goes without", store.Address())
	} else {
		err = checkSchema(cmd.Context(), store)
	}
	if err != nil {
		_ = store.Close() // nothing was done with it
		return nil, nil, err
	}
	return archive, func() { _ = store.Close() }, nil // it was only read
}

// routes returns the routes of the service.
func (s pushSettings) routes(clients http.Handler, check func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /health/live", health.Live(check, health.DefaultPatience))
	mux.Handle("GET /health/ready", health.Ready(check))
	mux.Handle(s.path, clients)
	mux.Handle(s.path+"/", clients)
	if s.tokens == 0 {
		return httpserve.LocalOnly(mux, s.origins...)
	}
	return mux
}
