package service

import (
	"reflect"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/consumer/retention"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
)

// Config configures a [Service].
type Config struct {
	// Source names the service in messages that it enqueues. Ids are unique per source. At
	// most [waybill.MaxSourceLen] bytes. Required.
	Source string

	// Unique remembers the ids of enqueued messages for the outbox retention; see
	// outbox.Config.
	Unique bool

	// DisableRelay leaves publishing to a relay in another process.
	DisableRelay bool

	// DisableReplays leaves bulk replays of dead letters to another process. Without the relay
	// they are left to it anyway.
	DisableReplays bool

	// DisableSchedules leaves recurring schedules to another process. Without the relay they are left
	// to it anyway, and so they are if the store keeps no schedules.
	DisableSchedules bool

	// Schedules is the configuration of the runner of recurring schedules. Optional; the zero
	// value stands for its defaults.
	Schedules schedule.RunnerConfig

	// Relay is the relay's configuration. Optional; the zero value stands for its defaults.
	Relay relay.Config

	// Destinations replace the service's broker as the relay's destinations, such as several brokers,
	// or webhooks. Each message is published to all that match it, with separate attempts. Consumers
	// then still receive from the broker, which is not required without them. Optional.
	Destinations []relay.Destination

	// Consumer holds defaults for the consumers: an empty field in a consumer's configuration takes the
	// value from here. MessageKey, GiveUp and Offsets are not taken from here, nor is InboxRetention,
	// whose default is the janitor's. AllowShortRetention and DisableDeadLetters hold if they are set
	// in either. Optional.
	Consumer consumer.Config

	// Janitor is the configuration of the janitor that runs with relay and consumers. CleanupInterval
	// and CleanupBatchSize default to the relay's, and DisableCleanup holds if it is set in either. The
	// relay cleans up the archive unless OutboxRetention is set. Optional.
	Janitor janitor.Config

	// DisableTraffic records no traffic. Otherwise a service counts what it enqueues, publishes and handles, and
	// adds a row to the store each minute, if the store is a [traffic.Store].
	DisableTraffic bool

	// Observer receives the events of the service, unless Relay, Schedules, Janitor or a consumer has
	// its own. Optional; the default logs to slog.Default.
	Observer observe.Observer
}

// consumer fills in the empty fields of c.
func (cfg *Config) consumer(c consumer.Config) consumer.Config {
	d := cfg.Consumer
	d.MessageKey, d.GiveUp, d.Offsets = nil, nil, consumer.OffsetsOff // each consumer has its own
	d.InboxRetention = cfg.Janitor.InboxRetention
	d.RelayRetry = orElse(d.RelayRetry, cfg.Relay.Retry)
	d.Observer = firstObserver(d.Observer, cfg.Observer)
	return filled(c, d)
}

// filled returns c with its empty fields taken from otherwise.
func filled[T any](c, otherwise T) T {
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(otherwise)
	for i := range to.NumField() {
		if f := to.Field(i); f.IsZero() {
			f.Set(from.Field(i))
		}
	}
	return c
}

// janitor fills in the empty fields of the janitor's configuration.
func (cfg *Config) janitor() janitor.Config {
	c := cfg.Janitor
	c.CleanupInterval = orElse(c.CleanupInterval, cfg.Relay.CleanupInterval)
	c.CleanupBatchSize = orElse(c.CleanupBatchSize, cfg.Relay.CleanupBatchSize)
	c.DisableCleanup = c.DisableCleanup || cfg.Relay.DisableCleanup
	c.Observer = firstObserver(c.Observer, cfg.Observer)
	return c
}

// checkRetention compares the inbox retention with how long the broker may redeliver, to consumers
// of this service or of others.
func (cfg *Config) checkRetention(broker Broker) error {
	r := retention.Plan{
		Inbox: cfg.Janitor.InboxRetention, Relay: cfg.Relay.Retry, Consumer: cfg.Consumer.Retry,
		Redelivery: contract.RedeliveryOf(broker),
	}
	if err := r.Check(); err != nil && !cfg.Consumer.AllowShortRetention && !cfg.janitor().DisableCleanup {
		return &waybill.InvalidError{Field: "janitor.Config.InboxRetention", Reason: err.Error() + "; consumer.Config.AllowShortRetention allows it anyway"}
	}
	return nil
}

// firstObserver returns the first that is set, or nil.
func firstObserver(list ...observe.Observer) observe.Observer {
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
