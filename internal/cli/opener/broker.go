package opener

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/service"
)

// BrokerConfig says which broker to open.
type BrokerConfig struct {
	// URL is amqp://user:password@host:port/vhost, nats://host:port, or mem:.
	URL string

	// Exchange is RabbitMQ's; Stream and SubjectPrefix are those of NATS.
	Exchange, Stream, SubjectPrefix string
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
	RabbitMQ = "RabbitMQ"
	NATS     = "NATS"
	Memory   = "memory"
)

// BrokerKind returns which broker a URL is for, "" if it is for none that is known.
func BrokerKind(url string) string {
	switch schemeOf(url) {
	case "amqp", "amqps":
		return RabbitMQ
	case "nats", "tls", "ws", "wss":
		return NATS
	case "mem":
		return Memory
	}
	return ""
}

// OpenBroker opens a broker and makes sure that it answers, under the same errors as
// [OpenStore].
func OpenBroker(ctx context.Context, cfg BrokerConfig) (Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	broker, err := openBroker(ctx, cfg)
	var invalid *waybill.InvalidError
	switch {
	case err == nil:
		return broker, nil
	case errors.Is(err, ErrURL) || errors.As(err, &invalid):
		return nil, err
	}
	return nil, &UnreachableError{What: "broker", Address: config.Redact(cfg.URL), Err: err}
}

func openBroker(ctx context.Context, cfg BrokerConfig) (Broker, error) {
	switch BrokerKind(cfg.URL) {
	case RabbitMQ:
		return rabbitbroker.Open(ctx, rabbitbroker.Config{URL: cfg.URL, Exchange: cfg.Exchange, ConnectTimeout: Timeout / 2})
	case NATS:
		return natsbroker.Open(ctx, natsbroker.Config{URL: cfg.URL, Stream: cfg.Stream, SubjectPrefix: cfg.SubjectPrefix})
	case Memory:
		return membroker.New(), nil
	}
	return nil, fmt.Errorf("%w: broker %s: amqp://…, nats://… and mem: are known", ErrURL, config.Redact(cfg.URL))
}
