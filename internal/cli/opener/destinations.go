package opener

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/relay"
)

// TopicRoute says which messages go to one of several brokers.
type TopicRoute struct {
	Name   string
	Broker BrokerConfig
	Topics []broker.Pattern // of topics, and of destinations (Message.To)
	Rate   float64          // messages per second; 0: no limit

	Structured bool // content mode of CloudEvents
}

// DestinationsConfig configures where a relay with more than one broker publishes. A message
// goes to every route that takes it, and to every webhook that does.
type DestinationsConfig struct {
	Routes []TopicRoute

	// Rest takes messages that no route takes and that are not sent to a webhook, under the name
	// config.DefaultRoute; none without a URL.
	Rest           BrokerConfig
	RestRate       float64
	RestStructured bool

	Webhooks httpbroker.Config
}

// Destinations are opened brokers, each with the messages that it takes.
type Destinations struct {
	List     []relay.Destination
	brokers  map[string]Broker  // by URL
	webhooks *httpbroker.Broker // nil if there are none
}

// OpenDestinations opens brokers. One that does not answer is unavailable until it does, and the
// others continue. The errors are those of [OpenBroker].
func OpenDestinations(ctx context.Context, cfg DestinationsConfig) (*Destinations, error) {
	d := &Destinations{brokers: make(map[string]Broker)}
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
		if err := d.add(ctx, r.Broker, relay.Destination{Name: r.Name, Match: r.takes, Rate: r.Rate, Structured: r.Structured}); err != nil {
			return err
		}
	}
	if cfg.Rest.URL != "" {
		rest := relay.Destination{Name: config.DefaultRoute, Rate: cfg.RestRate, Structured: cfg.RestStructured}
		rest.Match = func(m *waybill.Message) bool { return !taken(m) }
		if err := d.add(ctx, cfg.Rest, rest); err != nil {
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
	return slices.ContainsFunc(r.Topics, func(p broker.Pattern) bool { return p.Match(m.Address()) })
}

// add adds a destination at a broker. Those with the same URL share a connection.
func (d *Destinations) add(ctx context.Context, cfg BrokerConfig, to relay.Destination) error {
	b := d.brokers[cfg.URL]
	if b == nil {
		var err error
		if b, err = OpenBroker(ctx, cfg); err != nil {
			return fmt.Errorf("destination %s: %w", to.Name, err)
		}
		d.brokers[cfg.URL] = b
	}
	to.Publisher = b.Publisher()
	d.List = append(d.List, to)
	return nil
}

// Close ends the connections.
func (d *Destinations) Close() error {
	var errs []error
	for _, b := range d.brokers {
		errs = append(errs, b.Close())
	}
	if d.webhooks != nil {
		errs = append(errs, d.webhooks.Close())
	}
	return errors.Join(errs...)
}
