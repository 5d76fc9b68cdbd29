package natsbroker

import (
	"cmp"
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
)

// DiscoveryConfig configures the subjects of pings and announcements.
type DiscoveryConfig struct {
	// Prefix is what the subjects begin with: <Prefix>.ping.<bus>.<group> and
	// <Prefix>.announce.<bus>.<group>. At most 50 bytes. It must not lie within the stream's
	// subjects, because the stream would store what is published there, and answer it.
	// Optional; the default is "waybill-discovery".
	Prefix string
}

const (
	defaultDiscoveryPrefix = "waybill-discovery"
	maxDiscoveryPrefixLen  = 50

	correlationHeader = "Correlation-Id"
)

// Discovery connects finders and announcers of package discovery over NATS: with plain
// messages, which no stream stores, and a separate inbox for the answers to each ping. It is
// safe for concurrent use.
type Discovery struct {
	broker *Broker
	prefix string
}

// Discovery returns the transport for package discovery. The error names the field of cfg
// that is wrong; the server is not asked.
func (b *Broker) Discovery(cfg DiscoveryConfig) (*Discovery, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, defaultDiscoveryPrefix)
	switch {
	case len(cfg.Prefix) > maxDiscoveryPrefixLen:
		return nil, invalidf("DiscoveryConfig.Prefix", "has %d bytes, the limit is %d", len(cfg.Prefix), maxDiscoveryPrefixLen)
	case !validSubject(cfg.Prefix) || strings.HasPrefix(cfg.Prefix, "$"):
		return nil, invalidf("DiscoveryConfig.Prefix", "is not a subject without wildcards and '$'")
	case strings.HasPrefix(cfg.Prefix+".", b.cfg.SubjectPrefix) || strings.HasPrefix(b.cfg.SubjectPrefix, cfg.Prefix+"."):
		return nil, invalidf("DiscoveryConfig.Prefix", "meets SubjectPrefix, whose subjects the stream keeps")
	}
	return &Discovery{broker: b, prefix: cfg.Prefix}, nil
}

func (d *Discovery) subject(verb, bus, group string) string {
	return strings.Join([]string{d.prefix, verb, bus, group}, ".")
}

// Ping implements the transport of package discovery.
func (d *Discovery) Ping(ctx context.Context, bus, group, correlationID string, ping []byte, hear func(correlationID string, body []byte)) error {
	inbox := d.broker.nc.NewRespInbox()
	m, err := d.open(inbox, d.subject("announce", bus, group))
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.publish(d.subject("ping", bus, group), inbox, correlationID, ping); err != nil {
		return err
	}
	return m.receive(ctx, func(got *nats.Msg) error {
		switch {
		case got.Subject != inbox:
			hear("", got.Data)
		case got.Header.Get("Status") == "": // not the server's notice that nobody listens
			hear(got.Header.Get(correlationHeader), got.Data)
		}
		return nil
	})
}

// Listen implements the transport of package discovery.
func (d *Discovery) Listen(ctx context.Context, bus, group string, announcement []byte, answer func(correlationID string, ping []byte) []byte) error {
	m, err := d.open(d.subject("ping", bus, group))
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.publish(d.subject("announce", bus, group), "", "", announcement); err != nil {
		return err
	}
	return m.receive(ctx, func(got *nats.Msg) error {
		id := got.Header.Get(correlationHeader)
		reply := answer(id, got.Data)
		if reply == nil || got.Reply == "" {
			return nil
		}
		return m.publish(got.Reply, "", id, reply)
	})
}

// mailbox is a set of subscriptions that are received from together.
type mailbox struct {
	broker   *Broker
	received chan *nats.Msg
	subs     []*nats.Subscription
}

// maxReceived is how many unread messages are kept; more are dropped.
const maxReceived = 1000

// open subscribes, and waits until the server knows.
func (d *Discovery) open(subjects ...string) (*mailbox, error) {
	if err := d.broker.connected(); err != nil {
		return nil, err
	}
	m := &mailbox{broker: d.broker, received: make(chan *nats.Msg, maxReceived)}
	for _, subject := range subjects {
		sub, err := d.broker.nc.ChanSubscribe(subject, m.received)
		if err != nil {
			m.close()
			return nil, waybill.UnavailableError(err)
		}
		m.subs = append(m.subs, sub)
	}
	if err := d.broker.nc.FlushTimeout(connectTimeout); err != nil {
		m.close()
		return nil, waybill.UnavailableError(err)
	}
	return m, nil
}

func (m *mailbox) publish(subject, reply, correlationID string, body []byte) error {
	msg := &nats.Msg{Subject: subject, Reply: reply, Data: body}
	if correlationID != "" {
		msg.Header = nats.Header{correlationHeader: {correlationID}}
	}
	if err := m.broker.nc.PublishMsg(msg); err != nil {
		return waybill.UnavailableError(err)
	}
	return nil
}

// receive passes on what arrives until ctx is done, which returns nil, or the connection ends
// for good. A connection that is lost and re-established keeps its subscriptions.
func (m *mailbox) receive(ctx context.Context, take func(*nats.Msg) error) error {
	for {
		select {
		case got := <-m.received:
			if err := take(got); err != nil {
				return err
			}
		case <-m.broker.done:
			return waybill.UnavailableError(errClosed)
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *mailbox) close() {
	for _, sub := range m.subs {
		_ = sub.Unsubscribe() // it ends with the connection, if that has ended
	}
}
