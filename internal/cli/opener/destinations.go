package opener

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/relay"
)

// TopicRoute says which messages go to one of several brokers.
type TopicRoute struct {
	Name   string
	Broker BrokerConfig
	Topics []relay.Pattern // of topics, and of what messages are sent to
}

// DestinationsConfig says where a relay publishes that has more than one broker. A message goes
// to every route that takes it, and to every webhook that does.
type DestinationsConfig struct {
	Routes []TopicRoute

	// Rest takes what no route takes and what is not sent to a webhook, under the name of
	// config.DefaultRoute; nothing without a URL.
	Rest BrokerConfig

	Webhooks httpbroker.Config
}

// Destinations are opened brokers, each with the messages that it takes.
type Destinations struct {
	List     []relay.Destination
	brokers  map[string]*patient // by URL
	webhooks *httpbroker.Broker  // nil if there are none
}

// OpenDestinations opens brokers. One that does not answer is opened later, and counts as
// unavailable until then, so that the others go on. The error is about the configuration.
func OpenDestinations(ctx context.Context, cfg DestinationsConfig) (*Destinations, error) {
	d := &Destinations{brokers: make(map[string]*patient)}
	if err := d.open(ctx, cfg); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Destinations) open(ctx context.Context, cfg DestinationsConfig) error {
	taken := func(m *waybill.Message) bool {
		return slices.ContainsFunc(cfg.Routes, func(r TopicRoute) bool { return r.takes(m) }) ||
			slices.ContainsFunc(cfg.Webhooks.Endpoints, func(e httpbroker.Endpoint) bool { return m.To != "" && m.To == e.Name })
	}
	for _, r := range cfg.Routes {
		if err := r.check(); err != nil {
			return err
		}
		if err := d.add(ctx, r.Name, r.Broker, r.takes); err != nil {
			return err
		}
	}
	if cfg.Rest.URL != "" {
		if err := d.add(ctx, config.DefaultRoute, cfg.Rest, func(m *waybill.Message) bool { return !taken(m) }); err != nil {
			return err
		}
	}
	if len(cfg.Webhooks.Endpoints) == 0 {
		return nil
	}
	webhooks, err := httpbroker.New(cfg.Webhooks)
	if err != nil {
		return err
	}
	d.webhooks = webhooks
	d.List = append(d.List, webhooks.Destinations()...)
	return nil
}

func (r TopicRoute) check() error {
	if r.Broker.URL == "" || len(r.Topics) == 0 {
		return &waybill.InvalidError{Field: "routes", Reason: fmt.Sprintf("the route %s lacks broker or topics", r.Name)}
	}
	for _, p := range r.Topics {
		if err := p.Validate("routes"); err != nil {
			return err
		}
	}
	return nil
}

func (r TopicRoute) takes(m *waybill.Message) bool {
	return slices.ContainsFunc(r.Topics, func(p relay.Pattern) bool { return p.Match(m.Address()) })
}

// add adds a destination. Those at one URL share a connection.
func (d *Destinations) add(ctx context.Context, name string, cfg BrokerConfig, match func(*waybill.Message) bool) error {
	p := d.brokers[cfg.URL]
	if p == nil {
		p = &patient{cfg: cfg}
		_, err := p.opened(ctx)
		var unreachable *UnreachableError
		if err != nil && !errors.As(err, &unreachable) {
			return fmt.Errorf("destination %s: %w", name, err)
		}
		d.brokers[cfg.URL] = p
	}
	d.List = append(d.List, relay.Destination{Name: name, Publisher: p, Match: match})
	return nil
}

// Close ends the connections.
func (d *Destinations) Close() error {
	var errs []error
	for _, p := range d.brokers {
		errs = append(errs, p.close())
	}
	if d.webhooks != nil {
		errs = append(errs, d.webhooks.Close())
	}
	return errors.Join(errs...)
}

// patient publishes to a broker that may be away when it is opened first.
type patient struct {
	cfg BrokerConfig

	broker  atomic.Pointer[Broker] // nil until it was opened
	opening sync.Mutex
}

var errOpening = waybill.UnavailableError(errors.New("the broker is being opened"))

// Send implements [relay.Publisher].
func (p *patient) Send(ctx context.Context, msgs []relay.Outgoing) (wait func() []error) {
	broker, err := p.opened(ctx)
	if err == nil {
		return broker.Publisher().Send(ctx, msgs)
	}
	results := slices.Repeat([]error{waybill.UnavailableError(err)}, len(msgs))
	return func() []error { return results }
}

// DedupWindow implements [relay.Deduplicator]. It is 0 until the broker was opened.
func (p *patient) DedupWindow() time.Duration {
	broker := p.broker.Load()
	if broker == nil {
		return 0
	}
	if d, ok := (*broker).Publisher().(relay.Deduplicator); ok {
		return d.DedupWindow()
	}
	return 0
}

// ConfirmsLate implements [relay.LateConfirmer]. It is false until the broker was opened.
func (p *patient) ConfirmsLate() bool {
	broker := p.broker.Load()
	if broker == nil {
		return false
	}
	l, ok := (*broker).Publisher().(relay.LateConfirmer)
	return ok && l.ConfirmsLate()
}

// opened returns the broker, after it has opened it if need be. Who comes meanwhile is not kept
// waiting.
func (p *patient) opened(ctx context.Context) (Broker, error) {
	if broker := p.broker.Load(); broker != nil {
		return *broker, nil
	}
	if !p.opening.TryLock() {
		return nil, errOpening
	}
	defer p.opening.Unlock()
	if broker := p.broker.Load(); broker != nil { // opened by another meanwhile
		return *broker, nil
	}
	broker, err := OpenBroker(ctx, p.cfg)
	if err != nil {
		return nil, err
	}
	p.broker.Store(&broker)
	return broker, nil
}

// close ends the connection. Nobody sends any more.
func (p *patient) close() error {
	if broker := p.broker.Load(); broker != nil {
		return (*broker).Close()
	}
	return nil
}
