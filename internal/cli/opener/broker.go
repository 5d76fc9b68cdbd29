package opener

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/broker/kafkabroker"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
)

// BrokerConfig configures the broker to open.
type BrokerConfig struct {
	// URL is amqp://user:password@host:port/vhost, nats://host:port, kafka://host:port,host:port,
	// redis://user:password@host:port/number, servicebus://name:key@namespace, a connection
	// string of Azure Service Bus, https://host/path of a webhook, or mem:.
	URL string

	// The settings of each kind of broker. Their URLs and DeclareNothing are left empty.
	RabbitMQ   rabbitbroker.Config
	NATS       natsbroker.Config
	Kafka      kafkabroker.Config
	Redis      redisbroker.Config
	ServiceBus asbbroker.Config

	// Webhooks configures how webhooks are sent. With the URL of a webhook, that is the only endpoint;
	// without it there may be several.
	Webhooks httpbroker.Config

	// Secrets sign for a URL of a webhook.
	Secrets []httpbroker.Secret

	// DeclareNothing leaves the server as it is, where the broker would otherwise declare what it needs
	// when it is opened, or when a message needs it.
	DeclareNothing bool

	// Log receives a record if the server does not answer when the broker is opened. Optional; the
	// default is [slog.Default].
	Log *slog.Logger
}

// Broker is an opened broker.
type Broker interface {
	service.Broker

	// Ping reports whether the broker answers and confirms.
	Ping(ctx context.Context) error

	// Close ends the connections.
	Close() error
}

// Kinds of brokers, by the scheme of their URLs.
const (
	RabbitMQ   = "RabbitMQ"
	NATS       = "NATS"
	Kafka      = "Kafka"
	Redis      = "Redis"
	ServiceBus = "Azure Service Bus"
	Webhook    = "webhook"
	Memory     = "memory"
)

// BrokerKind returns which broker a URL is for, "" if it is unknown.
func BrokerKind(url string) string {
	switch schemeOf(url) {
	case "amqp", "amqps":
		return RabbitMQ
	case "nats", "tls", "ws", "wss":
		return NATS
	case "kafka", "kafkas":
		return Kafka
	case "redis", "rediss":
		return Redis
	case "servicebus":
		return ServiceBus
	case "https", "http":
		return Webhook
	case "mem":
		return Memory
	}
	if strings.Contains(strings.ToLower(url), "endpoint=sb://") {
		return ServiceBus
	}
	return ""
}

// ReachBroker opens a broker and makes sure that it answers, with the same errors as [OpenStore]. It
// does not check whether what it needs is declared there.
func ReachBroker(ctx context.Context, cfg BrokerConfig) (Broker, error) {
	cfg.Log = slog.New(slog.DiscardHandler) // the error tells
	broker, err := OpenBroker(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := broker.Ping(ctx); waybill.IsUnavailable(err) && !Undeclared(err) {
		_ = broker.Close() // nothing was done with it
		return nil, &UnreachableError{What: "broker", Address: redact.URL(cfg.URL), Err: err}
	}
	return broker, nil
}

// Undeclared reports whether err says that a broker answers but what messages need is not declared yet.
func Undeclared(err error) bool { return errors.Is(err, jetstream.ErrStreamNotFound) }

// OpenBroker opens a broker. One that does not answer is unavailable until it does. The error is
// about the configuration, or about what the server has under the names in it.
func OpenBroker(ctx context.Context, cfg BrokerConfig) (Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	broker, err := openBroker(ctx, cfg)
	if err != nil { // never a nil pointer in a Broker that is not nil
		return nil, err
	}
	return broker, nil
}

func openBroker(ctx context.Context, cfg BrokerConfig) (Broker, error) {
	if err := checkPassword("broker", cfg.URL); err != nil {
		return nil, err
	}
	switch BrokerKind(cfg.URL) {
	case RabbitMQ:
		c := cfg.RabbitMQ
		c.URL, c.DeclareNothing, c.ConnectTimeout, c.Log = cfg.URL, cfg.DeclareNothing, Timeout/2, cfg.Log
		return rabbitbroker.Open(ctx, c)
	case NATS:
		c := cfg.NATS
		c.URL, c.DeclareNothing, c.Log = cfg.URL, cfg.DeclareNothing, cfg.Log
		return natsbroker.Open(ctx, c)
	case Kafka:
		c := cfg.Kafka
		c.URL, c.CreateTopics, c.Log = cfg.URL, c.CreateTopics && !cfg.DeclareNothing, cfg.Log
		return kafkabroker.Open(ctx, c)
	case Redis:
		c := cfg.Redis
		c.URL, c.Log = cfg.URL, cfg.Log
		return redisbroker.Open(ctx, c)
	case ServiceBus:
		c := cfg.ServiceBus
		c.URL, c.DeclareNothing, c.Log = cfg.URL, cfg.DeclareNothing, cfg.Log
		return asbbroker.Open(ctx, c)
	case Webhook:
		c := cfg.Webhooks
		c.Endpoints = []httpbroker.Endpoint{{Name: "webhook", URL: cfg.URL, Secrets: cfg.Secrets}}
		return httpbroker.New(c)
	case Memory:
		return membroker.New(), nil
	}
	if scheme := schemeOf(cfg.URL); scheme == "sse" || scheme == "signalr" {
		return nil, fmt.Errorf("%w: %s:// is where clients are pushed to, and no broker; run: waybill push --broker … --to %s://…",
			ErrURL, scheme, scheme)
	}
	return nil, fmt.Errorf("%w: broker %s: amqp://…, nats://…, kafka://…, redis://…, servicebus://…, Endpoint=sb://…, https://… and mem: are known",
		ErrURL, redact.URL(cfg.URL))
}
