// Package promobserve makes Prometheus metrics of what writers, relays and consumers do.
// docs/metrics.md lists them: names, labels and meanings are a contract.
//
// An [Observer] counts what it is told. A [Collector] reads, when it is scraped, what only a
// relay or the store knows: lanes, backlog, dead letters.
//
//	observer := promobserve.New(promobserve.Config{})
//	svc, err := service.New(store, broker, service.Config{
//		Observer: observe.Observers(observe.LogTo(slog.Default()), observer),
//	})
//	registry.MustRegister(observer, promobserve.NewCollector(promobserve.CollectorConfig{
//		Relay:       svc.RelayStatus,
//		Backlog:     store,
//		DeadLetters: store,
//	}))
//
// Labels hold topics, types, destinations, consumers, sagas, and words of a fixed set; never ids,
// keys, tenants or texts of errors. See [Config.MaxLabelValues] for topics and types that
// somebody else makes up.
package promobserve
