package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
)

// Store is what a service needs of a store. Every store of the project implements it, except
// redisstore, which only leases keys.
type Store[Tx any] interface {
	outbox.Store[Tx]
	contract.Source
	contract.Inbox[Tx]
	deadletter.ReplayStore
	janitor.Store
}

// Broker is what a service needs of a broker. Every broker of the project implements it.
type Broker interface {
	// Publisher returns what the relay publishes with.
	Publisher() contract.Publisher

	consumer.Broker
}

// declarer is a broker that routes a message only to groups that were declared before it was
// published. A service declares its consumers before its relay starts.
type declarer interface {
	Declare(ctx context.Context, sub consumer.Subscription) error
}

// part is a consumer of either kind.
type part interface {
	Run(ctx context.Context) error
	Health() error
	Lag(ctx context.Context) (contract.Lag, error)
}

// Service is a relay, any number of consumers and a janitor over one store and one broker.
// With the relay it also runs bulk replays of dead letters and recurring schedules.
type Service[Tx any] struct {
	store  Store[Tx]
	broker Broker
	cfg    Config
	writer *outbox.Writer[Tx]
	replay *deadletter.Replayer // nil without the relay, or with DisableReplays
	runner *schedule.Runner     // nil without the relay, with DisableSchedules, or if the store keeps no schedules
	keeper *janitor.Janitor

	recorder *trafficRecorder // nil with DisableTraffic, or if the store keeps no traffic

	mu        sync.Mutex
	relay     *relay.Relay // nil with DisableRelay
	consumers []part
	names     []string // of the consumers
	subs      []consumer.Subscription
	started   bool // nothing can be added
	running   bool
}

// New returns a service over store and broker, which the caller closes after Run has returned.
// broker may be nil where [Config.Destinations] are set. The error is an
// [*waybill.InvalidError] that names what is missing or wrong.
func New[Tx any](store Store[Tx], broker Broker, cfg Config) (*Service[Tx], error) {
	switch {
	case store == nil:
		return nil, &waybill.InvalidError{Field: "store", Reason: "is required"}
	case broker == nil && len(cfg.Destinations) == 0:
		return nil, &waybill.InvalidError{Field: "broker", Reason: "is required"}
	}
	recorder, err := newRecorder(store, &cfg)
	if err != nil {
		return nil, err
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: cfg.Source, Unique: cfg.Unique, Observer: cfg.Observer})
	if err != nil {
		return nil, err
	}
	keeper, err := janitor.New(store, cfg.janitor())
	if err != nil {
		return nil, err
	}
	if err := cfg.checkRetention(broker); err != nil {
		return nil, err
	}
	s := &Service[Tx]{store: store, broker: broker, cfg: cfg, writer: writer, keeper: keeper, recorder: recorder}
	if !cfg.DisableRelay {
		cfg.Relay.Observer = s.counted(cfg.Relay.Observer)
		if err := s.setRelay(cfg.Relay); err != nil {
			return nil, err
		}
	}
	if !cfg.DisableRelay && !cfg.DisableReplays {
		if s.replay, err = deadletter.NewReplayer(store, deadletter.ReplayerConfig{Observer: cfg.Observer}); err != nil {
			return nil, err
		}
	}
	if err := s.setRunner(); err != nil {
		return nil, err
	}
	return s, nil
}

// setRunner creates the runner of recurring schedules, if there is to be one.
func (s *Service[Tx]) setRunner() (err error) {
	source, keeps := s.store.(schedule.Source)
	if !keeps || s.cfg.DisableRelay || s.cfg.DisableSchedules {
		return nil
	}
	cfg := s.cfg.Schedules
	cfg.Observer = firstObserver(cfg.Observer, s.cfg.Observer)
	s.runner, err = schedule.NewRunner(source, cfg)
	return err
}

// setRelay creates the service's relay with the given configuration.
func (s *Service[Tx]) setRelay(cfg relay.Config) error {
	destinations := s.cfg.Destinations
	if len(destinations) == 0 {
		destinations = []relay.Destination{{Publisher: s.broker.Publisher()}}
	}
	r, err := relay.NewFanout(s.store, destinations, cfg)
	if err != nil {
		return err
	}
	s.relay, s.cfg.Relay = r, cfg
	if s.recorder != nil {
		node := r.Status().Node
		s.recorder.node.Store(&node)
	}
	return nil
}

// Outbox returns the writer that enqueues in the caller's transactions. It may be used at any time,
// even while the service does not run.
func (s *Service[Tx]) Outbox() *outbox.Writer[Tx] { return s.writer }

// Consume adds a consumer of the messages that sub names. Fields that cfg leaves empty are taken
// from [Config.Consumer]. Two consumers of one service need different groups, because each message
// is handled once per group. Consume must be called before Run.
func (s *Service[Tx]) Consume(sub consumer.Subscription, h consumer.Handler[Tx], cfg consumer.Config) error {
	return s.consume(sub, func() (part, error) {
		return consumer.New(s.broker, sub, s.store, h, s.consumerConfig(cfg))
	})
}

// ConsumeBatch is like Consume, for a handler of many messages at once, see [consumer.NewBatch]. The
// store must be a [contract.Batcher].
func (s *Service[Tx]) ConsumeBatch(sub consumer.Subscription, h consumer.BatchHandler[Tx], cfg consumer.Config) error {
	return s.consume(sub, func() (part, error) {
		return consumer.NewBatch(s.broker, sub, s.store, h, s.consumerConfig(cfg))
	})
}

// ConsumeLeased adds a consumer of the messages that sub names, for a handler that does not write
// in a transaction of the service's store. It leases each message in leases, which may be the
// service's store if that is a [lease.Store]. If l.Letters is empty dead letters are kept in the
// service's store. Otherwise it is like [Service.Consume].
func (s *Service[Tx]) ConsumeLeased(sub consumer.Subscription, leases lease.Store, h consumer.LeasedHandler, l consumer.Leases, cfg consumer.Config) error {
	if !l.Letters.Set() {
		l.Letters = consumer.LettersIn(s.store)
	}
	return s.consume(sub, func() (part, error) {
		filled := s.consumerConfig(cfg)
		filled.BatchSize = cfg.BatchSize // the service's default is for the others
		return consumer.NewLeased(s.broker, sub, leases, h, l, filled)
	})
}

// consume adds the consumer that build returns for a subscription.
func (s *Service[Tx]) consume(sub consumer.Subscription, build func() (part, error)) error {
	if err := sub.Validate(); err != nil {
		return err
	}
	if s.broker == nil {
		return &waybill.InvalidError{Field: "broker", Reason: "is nil; a consumer receives from it"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.addConsumer(sub.Group, build); err != nil {
		return err
	}
	s.subs = append(s.subs, sub)
	return nil
}

// addConsumer adds the consumer that build returns, under its name. The lock is held.
func (s *Service[Tx]) addConsumer(name string, build func() (part, error)) error {
	if s.started {
		return errors.New("service: was run already; consumers are added before")
	}
	if slices.Contains(s.names, name) {
		return &waybill.InvalidError{Field: "Subscription.Group", Reason: fmt.Sprintf("%q is another consumer of this service", name)}
	}
	c, err := build()
	if err != nil {
		return err
	}
	s.consumers = append(s.consumers, c)
	s.names = append(s.names, name)
	return nil
}

// Run runs the relay, bulk replays, recurring schedules, all consumers and a janitor until ctx is done. Each
// then stops taking new work, finishes what is in flight within its grace period and releases the rest; Run
// returns nil when all of them have. A part that can't work, because a server does not answer, waits and does
// not stop the others; Health reports it. A service runs once at a time; a second Run returns an error.
func (s *Service[Tx]) Run(ctx context.Context) error {
	parts, err := s.start()
	if err != nil {
		return err
	}
	defer s.stopped()
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, run := range parts {
		wg.Go(func() { errs[i] = run(ctx) })
	}
	stopRecording := s.recorder.begin(ctx)
	wg.Wait()
	stopRecording() // when nothing is counted any more
	return errors.Join(errs...)
}

// start returns the Run of each part, the consumers' first.
func (s *Service[Tx]) start() ([]func(context.Context) error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, errors.New("service: is running already")
	}
	s.started, s.running = true, true
	var parts []func(context.Context) error
	for _, c := range s.consumers {
		parts = append(parts, c.Run)
	}
	if s.relay != nil {
		parts = append(parts, s.runRelay)
	}
	if s.replay != nil {
		parts = append(parts, s.replay.Run)
	}
	if s.runner != nil {
		parts = append(parts, s.runner.Run)
	}
	return append(parts, s.keeper.Run), nil
}

// runRelay declares the consumers' groups, for as long as it takes, and then runs the relay:
// what it published before would be unroutable.
func (s *Service[Tx]) runRelay(ctx context.Context) error {
	if d, ok := s.broker.(declarer); ok {
		declaring, done := context.WithCancel(ctx)
		l := &loop.Loop{Name: "service declare", Observer: firstObserver(s.cfg.Observer, observe.LogTo(slog.Default()))}
		l.Run(declaring, func(ctx context.Context) error {
			for _, sub := range s.subs {
				if err := d.Declare(ctx, sub); err != nil {
					return err
				}
			}
			done()
			return nil
		})
		done()
	}
	return s.relay.Run(ctx)
}

func (s *Service[Tx]) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
}

// RelayStatus returns a snapshot of the relay, and false with DisableRelay. It asks no server
// and is safe for concurrent use.
func (s *Service[Tx]) RelayStatus() (relay.Status, bool) {
	s.mu.Lock()
	r := s.relay
	s.mu.Unlock()
	if r == nil {
		return relay.Status{}, false
	}
	return r.Status(), true
}

// ConsumerLag asks the broker for the backlog of each consumer, by name. Consumers whose backlog is
// not known, such as those of [Service.Local], are left out. If some queries fail the error joins
// their errors, and the others are still returned. It is safe for concurrent use.
func (s *Service[Tx]) ConsumerLag(ctx context.Context) (map[string]contract.Lag, error) {
	s.mu.Lock()
	consumers, names := slices.Clone(s.consumers), slices.Clone(s.names)
	s.mu.Unlock()
	lags, errs := make(map[string]contract.Lag), []error(nil)
	for i, c := range consumers {
		switch lag, err := c.Lag(ctx); {
		case err == nil:
			lags[names[i]] = lag
		case !errors.Is(err, contract.ErrNoLag):
			errs = append(errs, err)
		}
	}
	return lags, errors.Join(errs...)
}

// Health returns nil while the relay, the replays, the schedules, the janitor and all consumers work, and
// otherwise one error for each that does not, a [*waybill.StalledError] for each of their loops. It asks no
// server and is safe for concurrent use.
func (s *Service[Tx]) Health() error {
	s.mu.Lock()
	r, consumers := s.relay, s.consumers
	s.mu.Unlock()
	var errs []error
	if r != nil {
		errs = append(errs, r.Health())
	}
	if s.replay != nil {
		errs = append(errs, s.replay.Health())
	}
	if s.runner != nil {
		errs = append(errs, s.runner.Health())
	}
	for _, c := range consumers {
		errs = append(errs, c.Health())
	}
	errs = append(errs, s.keeper.Health())
	return errors.Join(errs...)
}
