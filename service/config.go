package service

import (
	"reflect"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
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

	// DisableSchedules leaves recurring schedules to another process. Without the relay they are
	// left to it anyway, as they are by a store that keeps none.
	DisableSchedules bool

	// Schedules is the configuration of the runner of recurring schedules. Optional; the zero
	// value stands for its defaults.
	Schedules schedule.RunnerConfig

	// Relay is the relay's configuration. Optional; the zero value stands for its defaults.
	Relay relay.Config

	// Destinations are where the relay publishes instead of to the service's broker, each message
	// to all that match it: several brokers, webhooks. Each has attempts of its own. The broker
	// is then what consumers receive from, and is not required without them. Optional.
	Destinations []relay.Destination

	// Consumer holds defaults for the consumers: a field that is empty in the configuration
	// of one of them has the value that it has here. MessageKey, GiveUp and Offsets are not
	// taken from here, nor is InboxRetention, whose default is the janitor's. AllowShortRetention
	// and DisableDeadLetters hold if they are set in either. Optional.
	Consumer consumer.Config

	// Janitor is the configuration of the janitor that runs beside relay and consumers. What
	// it leaves empty of CleanupInterval and CleanupBatchSize is as for the relay, and
	// DisableCleanup holds if it is set in either. The archive is the relay's unless
	// OutboxRetention is set. Optional.
	Janitor janitor.Config

	// Observer is told what happens in the service, unless Relay, Schedules, Janitor or a consumer has
	// one of its own. Optional; the default logs to slog.Default.
	Observer observe.Observer
}

// consumer fills what c leaves empty.
func (cfg *Config) consumer(c consumer.Config) consumer.Config {
	d := cfg.Consumer
	d.MessageKey, d.GiveUp, d.Offsets = nil, nil, consumer.OffsetsOff // each has its own
	d.InboxRetention = cfg.Janitor.InboxRetention
	d.RelayRetry = orElse(d.RelayRetry, cfg.Relay.Retry)
	d.Observer = firstObserver(d.Observer, cfg.Observer)
	return filled(c, d)
}

// filled returns c with the fields that it leaves empty as they are in otherwise.
func filled[T any](c, otherwise T) T {
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(otherwise)
	for i := range to.NumField() {
		if f := to.Field(i); f.IsZero() {
			f.Set(from.Field(i))
		}
	}
	return c
}

// janitor fills what the janitor's configuration leaves empty.
func (cfg *Config) janitor() janitor.Config {
	c := cfg.Janitor
	c.CleanupInterval = orElse(c.CleanupInterval, cfg.Relay.CleanupInterval)
	c.CleanupBatchSize = orElse(c.CleanupBatchSize, cfg.Relay.CleanupBatchSize)
	c.DisableCleanup = c.DisableCleanup || cfg.Relay.DisableCleanup
	c.Observer = firstObserver(c.Observer, cfg.Observer)
	return c
}

// checkRetention compares what the janitor leaves in the inbox with what the broker may
// deliver again, to consumers of this service or of others.
func (cfg *Config) checkRetention(broker Broker) error {
	r := consumer.Retention{
		Inbox: cfg.Janitor.InboxRetention, Relay: cfg.Relay.Retry, Consumer: cfg.Consumer.Retry,
		Redelivery: consumer.RedeliveryOf(broker),
	}
	if err := r.Check(); err != nil && !cfg.Consumer.AllowShortRetention && !cfg.janitor().DisableCleanup {
		return &waybill.InvalidError{Field: "janitor.Config.InboxRetention", Reason: err.Error() + "; consumer.Config.AllowShortRetention takes it all the same"}
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
