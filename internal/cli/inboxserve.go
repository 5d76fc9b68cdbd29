package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/httpserve"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/observe/promobserve"
)

// defaultInboxStore is the store of an inbox service that has none configured.
const defaultInboxStore = "sqlite:inbox.db"

// The retention of processed keys should be in this range: below it messages that are
// redelivered late are processed again, and above it keys only take space.
const (
	leastInboxRetention = 7 * 24 * time.Hour
	mostInboxRetention  = 30 * 24 * time.Hour
)

// inboxFlags are the flags of the command.
type inboxFlags struct {
	listenFlags
	tokensFile string
	rateLimit  int
	announce   announceFlags
}

func (f *inboxFlags) add(cmd *cobra.Command, all *pflag.FlagSet) {
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	flags.StringVar(&f.tokensFile, "tokens-file", "", "`file` of tokens")
	flags.IntVar(&f.rateLimit, "rate-limit", 0, "keys per second that each token may ask for; 0: any")
	flags.StringVar(&f.cert, "tls-cert", "", "`file` of the certificate, to speak TLS")
	flags.StringVar(&f.key, "tls-key", "", "`file` of its key")
	f.announce.add(cmd, all)
}

// serveInbox runs the inbox service until it is stopped.
func (p *program) serveInbox(cmd *cobra.Command, f inboxFlags) error {
	tokens, err := inboxTokens(f.tokensFile)
	if err != nil {
		return err
	}
	local, err := f.check()
	if err != nil {
		return err
	}
	if !local && len(tokens) == 0 {
		return usagef("--listen %s can be reached from other machines, and nobody would be asked who they are; "+
			"give --tokens-file, or listen on 127.0.0.1", f.listen)
	}
	cfg, err := p.settings(cmd)
	if err != nil {
		return err
	}
	metrics, err := monitorAddress(cfg)
	if err != nil {
		return err
	}
	logger := p.logger(cfg)
	store, err := openLeases(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	counts := promobserve.New(promobserve.Config{})
	observer, stopTraces := p.observer(logger, "waybill-inbox", "", counts)
	defer stopTraces()
	server, err := inboxhttp.NewServer(store, inboxhttp.Config{
		Tokens: tokens, RateLimit: f.rateLimit, Observer: observer, DefaultLease: cfg.Duration("inbox.lease"),
	})
	if err != nil {
		return usagef("%v", err)
	}
	var handler http.Handler = server
	if len(tokens) == 0 {
		handler = httpserve.LocalOnly(server)
	}
	defer watchTokens(cmd.Context(), f.tokensFile, logger, func() error {
		tokens, err := inboxTokens(f.tokensFile)
		if err != nil {
			return err
		}
		return server.SetTokens(tokens...)
	})()
	announcing, err := f.announce.prepare(cmd.Context(), cfg, len(tokens) > 0, logger)
	if err != nil {
		return err
	}
	defer announcing.stop()
	if metrics != "" {
		stop, err := serve(cmd.Context(), metrics, metricsOf(counts), logger)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		defer stop()
	}
	warnOfInbox(logger, store, cfg.Duration("inbox.retention"), !local && !f.speaksTLS())
	defer cleanLeases(cmd.Context(), store, cfg, observer)()
	err = serveUntil(cmd.Context(), httpserve.New(handler, logger), f.listenFlags, func(url string) {
		logger.Info("inbox service is running", "url", url, "store", store.Address, "tokens", len(tokens), "retention", cfg.Duration("inbox.retention"))
		announcing.start(cmd.Context())
	})
	logger.Info("inbox service has stopped")
	return err
}

// openLeases opens the store that the configuration names. SQLite's file and tables are created
// if they do not exist; those of other databases must be migrated by their owner.
func openLeases(ctx context.Context, cfg *config.Config) (*opener.Leases, error) {
	c := opener.LeaseConfig{Retention: cfg.Duration("inbox.retention")}
	c.URL, c.Schema, c.TablePrefix = cfg.String("store"), cfg.String("schema"), cfg.String("table_prefix")
	if c.URL == "" {
		c.URL = defaultInboxStore
	}
	c.Create = true
	store, err := opener.OpenLeases(ctx, c)
	if err != nil || store.Tables == nil {
		return store, err
	}
	if err := prepareTables(ctx, store.Tables, strings.HasPrefix(c.URL, "sqlite:")); err != nil {
		_ = store.Close() // nothing was done with it
		return nil, err
	}
	return store, nil
}

func prepareTables(ctx context.Context, store opener.Store, create bool) error {
	version, err := store.SchemaVersion(ctx)
	if err == nil && version == 0 && create {
		_, err := store.Migrate(ctx, "", 0)
		return storeError(store, err)
	}
	return storeError(store, checkSchema(ctx, store))
}

// warnOfInbox logs settings that may surprise.
func warnOfInbox(logger *slog.Logger, store *opener.Leases, retention time.Duration, inTheClear bool) {
	switch {
	case retention < leastInboxRetention:
		logger.Warn("inbox.retention is short: a key that comes again later is processed again", "retention", retention, "least", leastInboxRetention)
	case retention > mostInboxRetention:
		logger.Warn("inbox.retention is long: keys only take room", "retention", retention, "most", mostInboxRetention)
	}
	if inTheClear {
		logger.Warn("tokens travel in the clear unless something in front of this service speaks TLS; give --tls-cert and --tls-key")
	}
	if store.Warning != "" {
		logger.Warn(store.Warning)
	}
}

// cleanLeases removes what is past its retention, every cleanup.interval, until the returned
// function is called. Several replicas may do so at once.
func cleanLeases(ctx context.Context, store lease.Store, cfg *config.Config, observer observe.Observer) (stop func()) {
	if !cfg.Bool("cleanup.enabled") {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &loop.Loop{Name: "inbox cleanup", Observer: observer}
	var running sync.WaitGroup
	running.Go(func() {
		l.Run(ctx, func(ctx context.Context) error {
			if err := purgeLeases(ctx, store, cfg, observer); err != nil {
				return err
			}
			loop.Sleep(ctx, cfg.Duration("cleanup.interval"))
			return nil
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func purgeLeases(ctx context.Context, store lease.Store, cfg *config.Config, observer observe.Observer) error {
	limit, total, began := cfg.Int("cleanup.batch_size"), 0, time.Now()
	for {
		n, err := store.PurgeLeases(ctx, cfg.Duration("inbox.retention"), limit)
		total += n
		if err == nil && n >= limit {
			continue
		}
		if total > 0 {
			observer.Observe(ctx, observe.Event{Op: observe.OpCleanup, Name: string(janitor.Leases), Count: total, Duration: time.Since(began)})
		}
		return err
	}
}

// metricsOf serves /metrics.
func metricsOf(counts *promobserve.Observer) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(counts, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
