package cli

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
)

// target is where a relay publishes: one broker, or several destinations.
type target struct {
	broker       service.Broker // nil if there are several destinations
	destinations []relay.Destination
	close        func() error
}

// openTarget opens the broker that the configuration names, or all of its routes and webhooks.
func openTarget(ctx context.Context, cfg *config.Config, log *slog.Logger) (target, error) {
	if len(cfg.Routes()) > 0 || len(cfg.Webhooks()) > 0 {
		c, err := destinationsConfig(cfg, log)
		if err != nil {
			return target{}, err
		}
		d, err := opener.OpenDestinations(ctx, c)
		if err != nil {
			return target{}, err
		}
		return target{destinations: d.List, close: d.Close}, nil
	}
	c, err := brokerConfig(cfg)
	if err != nil {
		return target{}, err
	}
	if err := refuseMemory(c.URL); err != nil {
		return target{}, err
	}
	c.Log = log
	broker, err := opener.OpenBroker(ctx, c)
	if err != nil {
		return target{}, err
	}
	only := relay.Destination{Publisher: broker.Publisher(), Rate: float64(cfg.Int("broker_rate")), Structured: cfg.Bool("broker_structured")}
	return target{broker: broker, destinations: []relay.Destination{only}, close: broker.Close}, nil
}

// names returns the names of several destinations, for the log.
func (t target) names() string {
	names := make([]string, len(t.destinations))
	for i, d := range t.destinations {
		names[i] = d.Name
	}
	return strings.Join(names, ",")
}

func refuseMemory(url string) error {
	if opener.BrokerKind(url) == opener.Memory {
		return usagef("the broker mem: lives in one process, where nobody could receive what this relay publishes")
	}
	return nil
}

// destinationsConfig turns the lists of the configuration file into destinations.
func destinationsConfig(cfg *config.Config, log *slog.Logger) (opener.DestinationsConfig, error) {
	hooks, err := webhooksConfig(cfg)
	if err != nil {
		return opener.DestinationsConfig{}, err
	}
	c := opener.DestinationsConfig{
		Webhooks: hooks, Rest: brokerAt(cfg, cfg.String("broker"), hooks), RestRate: float64(cfg.Int("broker_rate")), RestStructured: cfg.Bool("broker_structured"),
	}
	for _, r := range cfg.Routes() {
		c.Routes = append(c.Routes, opener.TopicRoute{Name: r.Name, Broker: brokerAt(cfg, r.Broker, hooks), Topics: patterns(r.Topics), Rate: r.Rate, Structured: r.Structured})
	}
	for _, w := range cfg.Webhooks() {
		c.Webhooks.Endpoints = append(c.Webhooks.Endpoints, httpbroker.Endpoint{
			Name: w.Name, URL: w.URL, Secrets: secrets(w.Secrets), Topics: patterns(w.Topics), Types: patterns(w.Types),
			Headers: w.Headers, Rate: w.Rate, Disabled: w.Disabled, Structured: w.Structured,
		})
	}
	c.Rest.Log = log
	for i := range c.Routes {
		c.Routes[i].Broker.Log = log
	}
	for _, b := range append([]opener.TopicRoute{{Broker: c.Rest}}, c.Routes...) {
		if err := refuseMemory(b.Broker.URL); err != nil {
			return c, err
		}
	}
	return c, nil
}

// webhooksConfig configures how webhooks are sent, to any endpoint.
func webhooksConfig(cfg *config.Config) (httpbroker.Config, error) {
	c := httpbroker.Config{Timeout: cfg.Duration("webhook.timeout")}
	for _, text := range strings.Split(cfg.String("webhook.allow_networks"), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return c, usagef("webhook.allow_networks (%s): %q is no network such as 10.1.0.0/16", cfg.Origin("webhook.allow_networks"), text)
		}
		c.AllowNetworks = append(c.AllowNetworks, network)
	}
	return c, nil
}

// brokerAt is the broker at a URL with the settings of its kind.
func brokerAt(cfg *config.Config, url string, hooks httpbroker.Config) opener.BrokerConfig {
	return opener.BrokerConfig{
		URL: url,
		RabbitMQ: rabbitbroker.Config{
			Exchange:           cfg.String("rabbitmq.exchange"),
			QueueType:          queueType(cfg),
			DeadLetterExchange: cfg.String("rabbitmq.dead_letter_exchange"),
		},
		NATS: natsbroker.Config{Stream: cfg.String("nats.stream"), SubjectPrefix: cfg.String("nats.subject_prefix")},
		Kafka: kafkabroker.Config{
			TopicPrefix:       cfg.String("kafka.topic_prefix"),
			CreateTopics:      cfg.Bool("kafka.create_topics"),
			Partitions:        cfg.Int("kafka.partitions"),
			ReplicationFactor: cfg.Int("kafka.replication_factor"),
			InstanceID:        cfg.String("kafka.instance_id"),
			TransactionalID:   cfg.String("kafka.transactional_id"),
		},
		Redis: redisbroker.Config{
			Prefix:   cfg.String("redis.prefix"),
			Replicas: cfg.Int("redis.replicas"),
			KeepFor:  cfg.Duration("redis.keep_for"),
		},
		Webhooks: hooks,
		Secrets:  secrets(strings.Fields(cfg.String("webhook.secret"))),
	}
}

// queueType is the type that queues on RabbitMQ must have, "" if any will do.
func queueType(cfg *config.Config) string {
	if t := cfg.String("rabbitmq.queue_type"); t != "auto" {
		return t
	}
	return ""
}

func secrets(texts []string) []httpbroker.Secret {
	var list []httpbroker.Secret
	for _, t := range texts {
		list = append(list, httpbroker.Secret(t))
	}
	return list
}

func patterns(texts []string) []broker.Pattern {
	var list []broker.Pattern
	for _, t := range texts {
		list = append(list, broker.Pattern(t))
	}
	return list
}

// brokerConfig returns the settings of the broker that the configuration names.
func brokerConfig(cfg *config.Config) (opener.BrokerConfig, error) {
	if cfg.String("broker") == "" {
		return opener.BrokerConfig{}, notSet("broker", "amqp://user:password@host:5672/, nats://host:4222, or kafka://host:9092")
	}
	hooks, err := webhooksConfig(cfg)
	if err != nil {
		return opener.BrokerConfig{}, err
	}
	return brokerAt(cfg, cfg.String("broker"), hooks), nil
}

// openBrokerAsIs opens the broker that the configuration names, for inspection: it declares
// nothing there.
func openBrokerAsIs(ctx context.Context, cfg *config.Config) (_ opener.Broker, address string, _ error) {
	c, err := brokerConfig(cfg)
	if err != nil {
		return nil, "", err
	}
	c.DeclareNothing = true
	open, err := opener.ReachBroker(ctx, c)
	return open, redact.URL(c.URL), err
}
