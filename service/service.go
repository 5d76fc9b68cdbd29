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
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

// Store is what a service needs of a store. Every store of the project is one.
type Store[Tx any] interface {
	outbox.Store[Tx]
	relay.Source
	inbox.Inbox[Tx]
	deadletter.ReplayStore
	janitor.Store
}

// Broker is what a service needs of a broker. Every broker of the project is one.
type Broker interface {
	// Publisher returns what the relay publishes with.
	Publisher() relay.Publisher

	// Subscriber returns what the consumer group of sub receives with.
	Subscriber(sub consumer.Subscription) consumer.Subscriber
}

// declarer is a broker that routes a message to those groups only that were declared before
// it was published. A service declares its consumers there before its relay begins.
type declarer interface {
	Declare(ctx context.Context, sub consumer.Subscription) error
}

// Service is a relay, any number of consumers and a janitor over one store and one broker.
// Beside the relay it drives bulk replays of dead letters.
type Service[Tx any] struct {
	store  Store[Tx]
	broker Broker
	cfg    Config
	writer *outbox.Writer[Tx]
	replay *deadletter.Replayer // nil without the relay, or with DisableReplays
	keeper *janitor.Janitor

	mu        sync.Mutex
	relay     *relay.Relay // nil with DisableRelay
	consumers []*consumer.Consumer[Tx]
	names     []string // of the consumers
	subs      []consumer.Subscription
	started   bool // nothing can be added any more
	running   bool
}

// New returns a service over store and broker, which stay the caller's: it closes them after
// Run has returned. The error is an [*waybill.InvalidError] that names what is missing or
// wrong.
func New[Tx any](store Store[Tx], broker Broker, cfg Config) (*Service[Tx], error) {
	switch {
	case store == nil:
		return nil, &waybill.InvalidError{Field: "store", Reason: "is required"}
	case broker == nil:
		return nil, &waybill.InvalidError{Field: "broker", Reason: "is required"}
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
	s := &Service[Tx]{store: store, broker: broker, cfg: cfg, writer: writer, keeper: keeper}
	if !cfg.DisableRelay {
		cfg.Relay.Observer = firstObserver(cfg.Relay.Observer, cfg.Observer)
		if err := s.setRelay(cfg.Relay); err != nil {
			return nil, err
		}
	}
	if !cfg.DisableRelay && !cfg.DisableReplays {
		if s.replay, err = deadletter.NewReplayer(store, deadletter.ReplayerConfig{Observer: cfg.Observer}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// setRelay makes the relay with the given configuration the service's own.
func (s *Service[Tx]) setRelay(cfg relay.Config) error {
	r, err := relay.New(s.store, s.broker.Publisher(), cfg)
	if err != nil {
		return err
	}
	s.relay, s.cfg.Relay = r, cfg
	return nil
}

// Outbox returns the writer that enqueues in the caller's transactions. It may be used at
// any time, also while the service does not run.
func (s *Service[Tx]) Outbox() *outbox.Writer[Tx] { return s.writer }

// Consume adds a consumer of the messages that sub names. cfg.Name may be left empty: it is
// sub.Group then. Other fields that cfg leaves empty are taken from [Config.Consumer].
// Two consumers of one service need different names, because each message is handled once
// per name. Consume must be called before Run.
func (s *Service[Tx]) Consume(sub consumer.Subscription, h consumer.Handler[Tx], cfg consumer.Config) error {
	if err := sub.Validate(); err != nil {
		return err
	}
	if cfg.Name == "" {
		cfg.Name = sub.Group
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.addConsumer(s.broker.Subscriber(sub), h, cfg); err != nil {
		return err
	}
	s.subs = append(s.subs, sub)
	return nil
}

// addConsumer adds a consumer that receives from sub. The lock is held.
func (s *Service[Tx]) addConsumer(sub consumer.Subscriber, h consumer.Handler[Tx], cfg consumer.Config) error {
	if s.started {
		return errors.New("service: was run already; consumers are added before")
	}
	if slices.Contains(s.names, cfg.Name) {
		return &waybill.InvalidError{Field: "consumer.Config.Name", Reason: fmt.Sprintf("%q is another consumer of this service", cfg.Name)}
	}
	c, err := consumer.New(sub, s.store, h, s.cfg.consumer(cfg))
	if err != nil {
		return err
	}
	s.consumers = append(s.consumers, c)
	s.names = append(s.names, cfg.Name)
	return nil
}

// Run runs the relay, bulk replays, all consumers and a janitor until ctx is done. Each then stops taking up work,
// finishes what is under way within its own grace period and gives the rest back; Run
// returns nil when all of them have. A part that can't work, because a server does not
// answer, waits and does not stop the others; Health tells of it. A service runs once at a
// time; a second Run returns an error.
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
	wg.Wait()
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
	return append(parts, s.keeper.Run), nil
}

// runRelay declares the consumers' groups, for as long as it takes, and then runs the relay:
// what it published before would be unroutable.
func (s *Service[Tx]) runRelay(ctx context.Context) error {
	if d, ok := s.broker.(declarer); ok {
		declaring, done := context.WithCancel(ctx)
		l := &loop.Loop{Name: "service declare", Observer: firstObserver(s.cfg.Observer, waybill.LogTo(slog.Default()))}
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

// Health returns nil while the relay, the replays, the janitor and all consumers do their work, and
// otherwise one error for each that does not, a [*waybill.StalledError] for each of their
// loops. It asks no server and is safe for concurrent use.
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
	for _, c := range consumers {
		errs = append(errs, c.Health())
	}
	errs = append(errs, s.keeper.Health())
	return errors.Join(errs...)
}
