package service

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
)

// emptyStore has nothing to do. The nil interface in it panics when what a running service
// should not need is called.
type emptyStore struct {
	Store[int]
	renewErr        error
	askedForReplays atomic.Bool
	counted         int // how often it was asked for expired rows
}

func (s *emptyStore) RenewLanes(context.Context, contract.LeaseRequest) (contract.Lease, error) {
	return contract.Lease{Lanes: []contract.Lane{{Number: 1, Epoch: 1}}, Share: 1}, s.renewErr
}
func (*emptyStore) LeaveLanes(context.Context, string) error { return nil }
func (*emptyStore) ClaimMessages(context.Context, contract.ClaimRequest) ([]contract.Claim, error) {
	return nil, nil
}
func (*emptyStore) ReleaseScheduled(context.Context, int) (int, error) { return 0, nil }
func (*emptyStore) MaintainArchive(context.Context, contract.MaintainRequest) (contract.Maintained, error) {
	return contract.Maintained{}, nil
}
func (*emptyStore) AwaitMessages(ctx context.Context, _ string) error {
	<-ctx.Done()
	return nil
}
func (s *emptyStore) Replays(context.Context, int) ([]deadletter.Replay, error) {
	s.askedForReplays.Store(true)
	return nil, nil
}
func (*emptyStore) TakeRequeued(context.Context, string, time.Duration) (contract.Requeued, bool, error) {
	return contract.Requeued{}, false, nil
}

func (s *emptyStore) CountExpired(context.Context, janitor.Rows) (int64, error) {
	s.counted++
	return 0, nil
}

// silentBroker delivers nothing.
type silentBroker struct{ subscribed chan string }

func newSilentBroker() silentBroker { return silentBroker{make(chan string, 10)} }

func (silentBroker) Publisher() contract.Publisher { return newLocal() }
func (b silentBroker) Subscriber(sub consumer.Subscription) contract.Subscriber {
	return silentSubscriber{b, sub}
}

type silentSubscriber struct {
	broker silentBroker
	sub    consumer.Subscription
}

func (s silentSubscriber) Subscribe(ctx context.Context, _ int, _ func(contract.Delivery)) error {
	s.broker.subscribed <- s.sub.Group
	<-ctx.Done()
	return nil
}

type nothing struct{}

func (nothing) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}
func (nothing) Observe(context.Context, observe.Event) {}

func handle(context.Context, int, *waybill.Message) error { return nil }

func newTestService(t *testing.T, cfg Config) *Service[int] {
	t.Helper()
	cfg.Source, cfg.Observer = "test", nothing{}
	s, err := New[int](&emptyStore{}, newSilentBroker(), cfg)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return s
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	store, broker := &emptyStore{}, newSilentBroker()
	tests := []struct {
		name, field string
		new         func() (*Service[int], error)
	}{
		{"no store", "store", func() (*Service[int], error) { return New[int](nil, broker, Config{Source: "a"}) }},
		{"no broker", "broker", func() (*Service[int], error) { return New[int](store, nil, Config{Source: "a"}) }},
		{"no source", "outbox.Config.Source", func() (*Service[int], error) { return New[int](store, broker, Config{}) }},
		{"source too long", "outbox.Config.Source", func() (*Service[int], error) {
			return New[int](store, broker, Config{Source: strings.Repeat("s", waybill.MaxSourceLen+1)})
		}},
		{"nonsense for the janitor", "janitor.Config.CleanupInterval", func() (*Service[int], error) {
			return New[int](store, broker, Config{Source: "a", Janitor: janitor.Config{CleanupInterval: -1}})
		}},
		{"an inbox that forgets too soon", "janitor.Config.InboxRetention", func() (*Service[int], error) {
			return New[int](store, broker, Config{Source: "a", Janitor: janitor.Config{InboxRetention: time.Second}})
		}},
		{"nonsense for the relay", "relay.Config.BatchSize", func() (*Service[int], error) {
			return New[int](store, broker, Config{Source: "a", Relay: relay.Config{BatchSize: -1}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.new()
			wantInvalid(t, err, tt.field)
		})
	}
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Errorf("error is %v, want an InvalidError of %s", err, field)
	}
}

func TestService_ConsumeRefuses(t *testing.T) {
	t.Parallel()
	sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
	tests := []struct {
		name, field string
		add         func(s *Service[int]) error
	}{
		{"no group", "Subscription.Group", func(s *Service[int]) error {
			return s.Consume(consumer.Subscription{Topics: []string{"orders"}}, handle, consumer.Config{})
		}},
		{"no handler", "h", func(s *Service[int]) error { return s.Consume(sub, nil, consumer.Config{}) }},
		{"nonsense in the defaults", "consumer.Config.Concurrency", func(s *Service[int]) error {
			s.cfg.Consumer.Concurrency = -1
			return s.Consume(sub, handle, consumer.Config{})
		}},
		{"a group twice", "Subscription.Group", func(s *Service[int]) error {
			other := consumer.Subscription{Group: "billing", Topics: []string{"payments"}}
			return errors.Join(s.Consume(sub, handle, consumer.Config{}), s.Consume(other, handle, consumer.Config{}))
		}},
		{"a local one of the same name", "Subscription.Group", func(s *Service[int]) error {
			return errors.Join(s.Consume(sub, handle, consumer.Config{}), s.Local("billing", nil, handle, consumer.Config{}))
		}},
		{"a local one without name", "name", func(s *Service[int]) error { return s.Local("", nil, handle, consumer.Config{}) }},
		{"a local one without relay", "service.Config.DisableRelay", func(s *Service[int]) error {
			s.relay = nil
			return s.Local("a", nil, handle, consumer.Config{})
		}},
		{"a destination that is taken", "Destination.Name", func(s *Service[int]) error {
			s.cfg.Relay.Followers = []relay.Destination{{Name: "local:a", Publisher: newLocal()}}
			return s.Local("a", nil, handle, consumer.Config{})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, tt.add(newTestService(t, Config{})), tt.field)
		})
	}
}

// A Local that is refused leaves nothing behind.
func TestService_LocalRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Config{})
	s.cfg.Relay.Followers = []relay.Destination{{Name: "local:a", Publisher: newLocal()}}
	if err := s.Local("a", nil, handle, consumer.Config{}); err == nil {
		t.Fatal("Local() = nil, want an error")
	}
	if len(s.consumers) != 0 || len(s.names) != 0 || len(s.cfg.Relay.Followers) != 1 {
		t.Errorf("left behind: %d consumers, %d followers", len(s.consumers), len(s.cfg.Relay.Followers)-1)
	}
}

func TestService_Run(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		cfg     Config
		consume bool
	}{
		{"outbox and inbox", Config{}, true},
		{"outbox only", Config{}, false},
		{"inbox only", Config{DisableRelay: true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
				s := newTestService(t, tt.cfg)
				if tt.consume {
					sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
					if err := s.Consume(sub, handle, consumer.Config{}); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Health(); err == nil {
					t.Error("Health() = nil before Run")
				}
				runThrough(t, s)
			})
		})
	}
}

// runThrough runs s for a minute and stops it.
func runThrough(t *testing.T, s *Service[int]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-time.After(time.Minute)
	if err := s.Health(); err != nil {
		t.Errorf("Health() = %v while it runs", err)
	}
	if err := s.Run(ctx); err == nil {
		t.Error("a second Run() = nil")
	}
	if err := s.Consume(consumer.Subscription{Group: "late", To: "x"}, handle, consumer.Config{}); err == nil {
		t.Error("Consume() = nil while it runs")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

func TestService_RunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestService(t, Config{})
		runThrough(t, s)
		runThrough(t, s)
	})
}

// Bulk replays run next to the relay, unless they are switched off.
func TestService_Replays(t *testing.T) {
	t.Parallel()
	for want, configs := range map[bool][]Config{true: {{}}, false: {{DisableReplays: true}, {DisableRelay: true}}} {
		for _, cfg := range configs {
			synctest.Test(t, func(t *testing.T) {
				s := newTestService(t, cfg)
				if err := s.Consume(consumer.Subscription{Group: "billing", To: "x"}, handle, consumer.Config{}); err != nil {
					t.Fatal(err)
				}
				runThrough(t, s)
				if got := s.store.(*emptyStore).askedForReplays.Load(); got != want {
					t.Errorf("the store was asked for replays: %v with %+v, want %v", got, cfg, want)
				}
			})
		}
	}
}

// A store that does not answer stops the relay's work, and nothing else.
func TestService_OnePartFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := newSilentBroker()
		s, err := New[int](&emptyStore{renewErr: errors.New("down")}, broker, Config{Source: "test", Observer: nothing{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Consume(consumer.Subscription{Group: "billing", To: "x"}, handle, consumer.Config{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if group := <-broker.subscribed; group != "billing" {
			t.Errorf("subscribed %q", group)
		}
		time.Sleep(time.Minute)
		if err := s.Health(); err == nil || !strings.Contains(err.Error(), "lease") || strings.Contains(err.Error(), "billing") {
			t.Errorf("Health() = %v, want an error of the lease only", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}

// What the janitor is not told it takes from the relay, its switch among it.
func TestConfig_JanitorDefaults(t *testing.T) {
	t.Parallel()
	cfg := Config{Observer: nothing{}, Relay: relay.Config{CleanupInterval: time.Minute, CleanupBatchSize: 7, DisableCleanup: true}}
	if got, want := cfg.janitor(), (janitor.Config{CleanupInterval: time.Minute, CleanupBatchSize: 7, DisableCleanup: true, Observer: nothing{}}); got != want {
		t.Errorf("janitor's configuration = %+v, want %+v", got, want)
	}
	cfg = Config{Relay: relay.Config{CleanupInterval: time.Minute}, Janitor: janitor.Config{CleanupInterval: time.Hour}}
	if got := cfg.janitor().CleanupInterval; got != time.Hour {
		t.Errorf("CleanupInterval = %v, want the janitor's own", got)
	}
}

// The consumers of a service are held to what its janitor and relay do.
func TestConfig_ConsumerRetention(t *testing.T) {
	t.Parallel()
	cfg := Config{Janitor: janitor.Config{InboxRetention: time.Hour}, Relay: relay.Config{Retry: waybill.RetryPolicy{MaxRetries: 3}}}
	got := cfg.consumer(consumer.Config{})
	if got.InboxRetention != time.Hour || got.RelayRetry.MaxRetries != 3 || got.AllowShortRetention {
		t.Errorf("consumer's configuration = %+v, want the janitor's retention and the relay's policy", got)
	}
	cfg.Consumer.AllowShortRetention = true
	if got := cfg.consumer(consumer.Config{}); !got.AllowShortRetention {
		t.Error("AllowShortRetention was not taken")
	}
}

// A service cleans up next to its relay, and also if it has none, unless it is configured not to.
func TestService_CleansUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  Config
		want bool
	}{
		{"outbox and inbox", Config{}, true},
		{"inbox only", Config{DisableRelay: true}, true},
		{"disabled", Config{Relay: relay.Config{DisableCleanup: true}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newTestService(t, tt.cfg)
				runThrough(t, s)
				if cleaned := s.store.(*emptyStore).counted > 0; cleaned != tt.want {
					t.Errorf("cleaned up = %v, want %v", cleaned, tt.want)
				}
			})
		})
	}
}

func TestConfig_ConsumerDefaults(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Observer: nothing{},
		Consumer: consumer.Config{
			Concurrency: 2, Prefetch: 20, Order: consumer.OrderByKey, HandlerTimeout: time.Second,
			RequeueInterval: time.Minute, ShutdownGrace: time.Hour, DisableDeadLetters: true,
			Retry: waybill.RetryPolicy{MaxRetries: 9},
		},
	}
	got := cfg.consumer(consumer.Config{Concurrency: 5})
	if got.Concurrency != 5 {
		t.Errorf("own values were overwritten: %+v", got)
	}
	if got.Prefetch != 20 || got.Order != consumer.OrderByKey || got.HandlerTimeout != time.Second || got.RequeueInterval != time.Minute ||
		got.ShutdownGrace != time.Hour || !got.DisableDeadLetters || got.Retry.MaxRetries != 9 || got.Observer != (nothing{}) {
		t.Errorf("defaults were not taken: %+v", got)
	}
}

// TestConfig_EveryConsumerDefault finds fields of consumer.Config that a service does not pass on, such
// as a new one.
func TestConfig_EveryConsumerDefault(t *testing.T) {
	t.Parallel()
	notTaken := []string{"MessageKey", "GiveUp", "Offsets", "InboxRetention"} // as the doc comment says
	for field := range reflect.TypeFor[consumer.Config]().Fields() {
		var cfg Config
		setSome(t, reflect.ValueOf(&cfg.Consumer).Elem().FieldByName(field.Name))
		got := cfg.consumer(consumer.Config{})
		taken := !reflect.ValueOf(got).FieldByName(field.Name).IsZero()
		if want := !slices.Contains(notTaken, field.Name); taken != want {
			t.Errorf("%s is taken from the defaults: %v, want %v", field.Name, taken, want)
		}
	}
}

// setSome gives v a value that is not zero.
func setSome(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("some")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		setSome(t, v.Field(0))
	case reflect.Interface:
		v.Set(reflect.ValueOf(nothing{}))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), nil))
	default:
		t.Fatalf("no value of %v is known here", v.Type())
	}
}
