// Package promobserve exports Prometheus metrics of writers, relays and consumers.
// docs/metrics.md lists them: names, labels and meanings are a contract.
//
// An [Observer] counts the events that it receives. A [Collector] reads, when it is scraped, what
// only a relay or the store knows: lanes, backlog, dead letters.
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
// keys, tenants or texts of errors. See [Config.MaxLabelValues] for topics and types that other
// programs choose.
package promobserve
