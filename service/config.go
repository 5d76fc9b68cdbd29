package service

import (
	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/relay"
)

// Config is what a service may be told.
type Config struct {
	// Source names the service in messages that it enqueues. Ids are unique per source. At
	// most [waybill.MaxSourceLen] bytes. Required.
	Source string

	// Unique remembers the ids of enqueued messages for the outbox retention; see
	// outbox.Config.
	Unique bool

	// DisableRelay leaves the publishing of what is enqueued to a relay in another process.
	DisableRelay bool

	// DisableReplays leaves bulk replays of dead letters to another process. Without the relay
	// they are left to it anyway.
	DisableReplays bool

	// Relay is the relay's configuration. Optional; the zero value stands for its defaults.
	Relay relay.Config

	// Consumer holds defaults for the consumers: a field that is empty in the configuration
	// of one of them has the value that it has here. Name and MessageKey are not taken from
	// here, and DisableDeadLetters holds if it is set in either. Optional.
	Consumer consumer.Config

	// Observer is told what happens in the service, unless Relay or a consumer has one of
	// its own. Optional; the default logs to slog.Default.
	Observer waybill.Observer
}

// consumer fills what c leaves empty.
func (cfg *Config) consumer(c consumer.Config) consumer.Config {
	d := &cfg.Consumer
	c.Concurrency = orElse(c.Concurrency, d.Concurrency)
	c.Prefetch = orElse(c.Prefetch, d.Prefetch)
	c.Order = orElse(c.Order, d.Order)
	c.Retry = orElse(c.Retry, d.Retry)
	c.HandlerTimeout = orElse(c.HandlerTimeout, d.HandlerTimeout)
	c.RequeueInterval = orElse(c.RequeueInterval, d.RequeueInterval)
	c.ShutdownGrace = orElse(c.ShutdownGrace, d.ShutdownGrace)
	c.DisableDeadLetters = c.DisableDeadLetters || d.DisableDeadLetters
	c.Observer = firstObserver(c.Observer, d.Observer, cfg.Observer)
	return c
}

// firstObserver returns the first that is set, or nil.
func firstObserver(list ...waybill.Observer) waybill.Observer {
	for _, o := range list {
		if o != nil {
			return o
		}
	}
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
