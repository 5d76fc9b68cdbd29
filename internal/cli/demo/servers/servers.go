// Package servers opens the servers that the demo can run on instead of its embedded ones.
package servers

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/internal/cli/demo"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/redact"
)

// All supports all of them.
type All struct{}

var _ demo.Servers = All{}

// Check implements demo.Servers. The error is [opener.ErrURL].
func (All) Check(broker string) error {
	if kind := opener.BrokerKind(broker); kind != opener.RabbitMQ && kind != opener.NATS {
		return fmt.Errorf("%w: the broker %s is none that the demo shows, amqp://… or nats://…; without --broker it brings its own", opener.ErrURL, redact.URL(broker))
	}
	return nil
}

// OpenStore implements demo.Servers, with the errors of [opener.OpenSQL].
func (All) OpenStore(ctx context.Context, s demo.Site) (*sql.DB, demo.Store, error) {
	return opener.OpenSQL(ctx, opener.StoreConfig{URL: s.Store, Schema: s.Name, Create: true})
}

// OpenBroker implements demo.Servers, with the errors of [opener.ReachBroker].
func (All) OpenBroker(ctx context.Context, s demo.Site) (demo.Broker, error) {
	return opener.ReachBroker(ctx, opener.BrokerConfig{
		URL:      s.Broker,
		RabbitMQ: rabbitbroker.Config{Exchange: s.Name},
		NATS:     s.NATS(),
	})
}

// OpenLook implements demo.Servers.
func (All) OpenLook(ctx context.Context, s demo.Site) (demo.Look, error) {
	if opener.BrokerKind(s.Broker) == opener.RabbitMQ {
		return openRabbitLook(s)
	}
	return demo.OpenNATSLook(ctx, s)
}
