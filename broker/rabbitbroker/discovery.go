package rabbitbroker

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

// DiscoveryConfig configures the exchange and routing keys of pings and announcements.
type DiscoveryConfig struct {
	// Exchange is the durable topic exchange for both. It is declared, and should not be the
	// one for messages: a consumer of "#" would receive pings as messages. Optional; the
	// default is "waybill.discovery".
	Exchange string

	// Prefix is what the routing keys begin with: <Prefix>.ping.<bus>.<group> and
	// <Prefix>.announce.<bus>.<group>. At most 50 bytes of words between dots, without
	// wildcards. Optional; the default is "waybill.discovery".
	Prefix string
}

const (
	defaultDiscovery = "waybill.discovery" // the exchange, and the prefix

	maxPrefixLen = 50

	// pingTTL is how long a ping stays in the queue of a service that is not reading.
	pingTTL = 2000 * time.Millisecond

	// maxDiscoveryQueue is how many messages the temporary queues hold; older ones are dropped.
	maxDiscoveryQueue = 1000
)

// Discovery connects finders and announcers of package discovery over RabbitMQ. Each call has
// its own connection and exclusive queue, which end with it. Answers go through the default
// exchange to the queue that the ping names. It is safe for concurrent use.
type Discovery struct {
	broker *Broker
	cfg    DiscoveryConfig
}

// Discovery returns the transport for package discovery. The error names the field of cfg
// that is wrong; the server is not asked.
func (b *Broker) Discovery(cfg DiscoveryConfig) (*Discovery, error) {
	cfg.Exchange = cmp.Or(cfg.Exchange, defaultDiscovery)
	cfg.Prefix = cmp.Or(cfg.Prefix, defaultDiscovery)
	if err := validName("DiscoveryConfig.Exchange", cfg.Exchange); err != nil {
		return nil, err
	}
	if len(cfg.Prefix) > maxPrefixLen {
		return nil, invalid("DiscoveryConfig.Prefix", "has %d bytes, the limit is %d", len(cfg.Prefix), maxPrefixLen)
	}
	if strings.ContainsAny(cfg.Prefix, "*# ") || strings.Contains("."+cfg.Prefix+".", "..") {
		return nil, invalid("DiscoveryConfig.Prefix", "must be words between dots, without wildcards")
	}
	return &Discovery{broker: b, cfg: cfg}, nil
}

func (d *Discovery) key(verb, bus, group string) string {
	return strings.Join([]string{d.cfg.Prefix, verb, bus, group}, ".")
}

// Ping implements the transport of package discovery.
func (d *Discovery) Ping(ctx context.Context, bus, group, correlationID string, ping []byte, hear func(correlationID string, body []byte)) error {
	m, err := d.open(ctx, d.key("announce", bus, group))
	if err != nil {
		return brokerkit.Ended(ctx, err)
	}
	defer m.close()
	err = m.publish(d.cfg.Exchange, d.key("ping", bus, group), amqp.Publishing{
		ContentType: jsonType, CorrelationId: correlationID, ReplyTo: m.queue, Body: ping,
		Expiration: strconv.FormatInt(pingTTL.Milliseconds(), 10),
	})
	if err != nil {
		return brokerkit.Ended(ctx, err)
	}
	return m.receive(ctx, func(got *amqp.Delivery) error {
		if got.Exchange == "" { // an answer; messages from the exchange are none
			hear(got.CorrelationId, got.Body)
		} else {
			hear("", got.Body)
		}
		return nil
	})
}

// Listen implements the transport of package discovery.
func (d *Discovery) Listen(ctx context.Context, bus, group string, announcement []byte, answer func(correlationID string, ping []byte) []byte) error {
	m, err := d.open(ctx, d.key("ping", bus, group))
	if err != nil {
		return brokerkit.Ended(ctx, err)
	}
	defer m.close()
	unasked := amqp.Publishing{ContentType: jsonType, Body: announcement}
	if err := m.publish(d.cfg.Exchange, d.key("announce", bus, group), unasked); err != nil {
		return brokerkit.Ended(ctx, err)
	}
	return m.receive(ctx, func(got *amqp.Delivery) error {
		reply := answer(got.CorrelationId, got.Body)
		if reply == nil || got.ReplyTo == "" {
			return nil
		}
		return m.publish(amqp.DefaultExchange, got.ReplyTo, amqp.Publishing{
			ContentType: jsonType, CorrelationId: got.CorrelationId, Body: reply,
		})
	})
}

const jsonType = "application/json"

// mailbox is a connection with a temporary queue.
type mailbox struct {
	broker     *Broker
	conn       *conn
	channel    *amqp.Channel
	queue      string
	deliveries <-chan amqp.Delivery
	closed     <-chan *amqp.Error
}

// open connects, and receives what is published under key from now on. The error is permanent
// if the exchange exists with another type, else unavailable.
func (d *Discovery) open(ctx context.Context, key string) (*mailbox, error) {
	c, err := d.broker.dial(ctx, "waybill discovery")
	if err != nil {
		return nil, err
	}
	m := &mailbox{broker: d.broker, conn: c}
	if err := c.within(ctx, func() error { return m.declare(d.cfg.Exchange, key) }); err != nil {
		m.close()
		err = fmt.Errorf("discovery at %s: %w", d.broker.address, err)
		if refusedWith(err, amqp.PreconditionFailed) != nil {
			return nil, waybill.PermanentError(waybill.ReasonRejected, err)
		}
		return nil, waybill.UnavailableError(err)
	}
	return m, nil
}

func (m *mailbox) declare(exchange, key string) (err error) {
	if m.channel, err = m.conn.Channel(); err != nil {
		return err
	}
	m.closed = m.channel.NotifyClose(make(chan *amqp.Error, 1))
	if err = m.channel.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return err
	}
	// An exclusive queue cannot be a quorum queue, whatever the default of the virtual host is.
	args := amqp.Table{amqp.QueueTypeArg: ClassicQueue, amqp.QueueMaxLenArg: maxDiscoveryQueue}
	queue, err := m.channel.QueueDeclare("", false, true, true, false, args)
	if err != nil {
		return err
	}
	m.queue = queue.Name
	if err = m.channel.QueueBind(m.queue, key, exchange, false, nil); err != nil {
		return err
	}
	m.deliveries, err = m.channel.Consume(m.queue, "", true, true, false, false, nil)
	return err
}

func (m *mailbox) publish(exchange, key string, p amqp.Publishing) error {
	if err := m.channel.Publish(exchange, key, false, false, p); err != nil {
		return m.conn.lost(err)
	}
	return nil
}

// receive passes on what arrives until ctx is done, which returns nil, or the connection ends.
func (m *mailbox) receive(ctx context.Context, take func(*amqp.Delivery) error) error {
	for {
		select {
		case got, ok := <-m.deliveries:
			if !ok {
				return brokerkit.Ended(ctx, m.lost())
			}
			if err := take(&got); err != nil {
				return brokerkit.Ended(ctx, err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *mailbox) lost() error {
	if m.channel.IsClosed() {
		return m.conn.lost(errorOrNil(<-m.closed))
	}
	return waybill.UnavailableError(errCancelled)
}

// close ends the connection, and with it the queue.
func (m *mailbox) close() {
	m.broker.forget(m.conn)
	m.conn.close(errClosed)
}
