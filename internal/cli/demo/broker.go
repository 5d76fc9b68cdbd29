package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/service"
)

// Broker is an opened broker.
type Broker interface {
	service.Broker

	// Close ends the connections.
	Close() error
}

// Look is a view of the broker that bypasses our own code, with its set-up and clean-up.
type Look interface {
	// Ready returns when the broker has a place for the messages of every group.
	Ready(ctx context.Context, broker Broker) error

	// Held returns how many messages the broker has accepted, copies included.
	Held(ctx context.Context) (int, error)

	// Backlog returns how many messages a consumer has not received yet.
	Backlog(ctx context.Context, consumer string) (int, error)

	// Remove deletes what the demo has created, and closes the connection.
	Remove(ctx context.Context) error
}

// Audit is a group without a consumer. Its queue gets a copy of everything that is
// published.
const Audit = "audit"

// different returns how many different messages, by their ids, are among those that the
// broker holds. It reads them all.
func different(ctx context.Context, broker Broker, s Site, held int) (int, error) {
	if held == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(readTimeout, cancel)
	ids := make(map[string]bool)
	read := 0
	sub := broker.Subscriber(consumer.Subscription{Group: s.Group(Audit), Topics: []string{Topic}})
	err := sub.Subscribe(ctx, 200, func(d contract.Delivery) {
		idle.Reset(readTimeout)
		if m, err := d.Message(); err == nil {
			ids[m.ID] = true
		}
		if err := d.Ack(ctx); err != nil {
			cancel()
		}
		if read++; read == held {
			cancel()
		}
	})
	if err == nil && read < held {
		err = fmt.Errorf("read %d of the %d messages that the broker holds", read, held)
	}
	return len(ids), err
}

const readTimeout = 10 * time.Second

// natsLook looks at the stream.
type natsLook struct {
	site   Site
	conn   *nats.Conn
	stream jetstream.Stream
}

// OpenNATSLook connects to the NATS server of a site, where the stream exists.
func OpenNATSLook(ctx context.Context, s Site) (Look, error) {
	conn, err := nats.Connect(s.Broker)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err == nil {
		l := &natsLook{site: s, conn: conn}
		if l.stream, err = js.Stream(ctx, s.Name); err == nil {
			return l, nil
		}
	}
	conn.Close()
	return nil, err
}

// Ready has nothing to wait for: the stream keeps what nobody reads yet.
func (l *natsLook) Ready(context.Context, Broker) error { return nil }

// Held counts what the stream has.
func (l *natsLook) Held(ctx context.Context) (int, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(info.State.Msgs), nil
}

// Backlog asks the consumer of JetStream.
func (l *natsLook) Backlog(ctx context.Context, consumer string) (int, error) {
	consumers := l.stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		if strings.HasPrefix(info.Name, l.site.Group(consumer)+"-") {
			return int(info.NumPending) + info.NumAckPending, nil
		}
	}
	if err := consumers.Err(); err != nil {
		return 0, err
	}
	return l.Held(ctx) // it has not begun
}

// Remove deletes the stream.
func (l *natsLook) Remove(ctx context.Context) error {
	defer l.conn.Close()
	js, err := jetstream.New(l.conn)
	if err != nil {
		return err
	}
	return js.DeleteStream(ctx, l.site.Name)
}
