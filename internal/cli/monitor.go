package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/httpserve"
	"github.com/waybill-go/waybill/observe/health"
	"github.com/waybill-go/waybill/observe/promobserve"
	"github.com/waybill-go/waybill/schedule"
)

// monitorAddress returns the address that metrics and health are served on, "" for none. One
// that others can reach needs a second option, because access is not authenticated.
func monitorAddress(cfg *config.Config) (string, error) {
	address := cfg.String("metrics.listen")
	if address == "" {
		return "", nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", usagef("metrics.listen is %q, want host:port such as 127.0.0.1:9464", address)
	}
	if isLoopback(host) || cfg.Bool("metrics.allow_public") {
		return address, nil
	}
	return "", usagef("metrics.listen is %q, which other machines can reach, and whoever reaches it may read it; "+
		"use a loopback address such as 127.0.0.1:9464, or set metrics.allow_public if the network is yours", address)
}

// isLoopback reports whether only this machine reaches a host. No host means all interfaces.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// monitored is what a monitor shows.
type monitored struct {
	observer *promobserve.Observer
	store    opener.Store
	runner   opener.Runner
	clock    bool // the schema version of the store is not ours
}

// handler serves /metrics, /health/live and /health/ready.
func (m monitored) handler() http.Handler {
	cfg := promobserve.CollectorConfig{Relay: m.runner.RelayStatus, Backlog: m.store, DeadLetters: m.store, Inbox: m.store}
	if schedules, keeps := m.store.(schedule.Inspector); keeps {
		cfg.Schedules = schedules
	}
	if sagas, ok := m.store.(promobserve.Sagas); ok {
		cfg.Sagas = sagas
	}
	if upkeep, ok := m.store.(promobserve.Upkeep); ok {
		cfg.Upkeep = upkeep
	}
	if m.clock {
		cfg.Clock = func(ctx context.Context) (time.Time, error) {
			facts, err := m.store.Facts(ctx)
			return facts.Clock, err
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.observer, promobserve.NewCollector(cfg),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /health/live", health.Live(m.runner.Health, health.DefaultPatience))
	mux.Handle("GET /health/ready", health.Ready(m.runner.Health))
	return mux
}

// serve answers on an address until the returned function is called.
func serve(ctx context.Context, address string, h http.Handler, logger *slog.Logger) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	server := httpserve.New(h, logger)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(httpserve.Limit(listener, httpserve.MaxConns)); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("metrics are not served any more", "error", err)
		}
	}()
	logger.Info("metrics and health are served", "address", listener.Addr().String())
	return func() {
		_ = server.Close() // nothing to save
		<-done
	}, nil
}
