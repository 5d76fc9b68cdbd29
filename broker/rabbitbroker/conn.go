package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// closeTimeout bounds the closing handshake with a server that may not answer.
const closeTimeout = 2 * time.Second

// conn is one connection to the server.
type conn struct {
	*amqp.Connection
	wire    *wire
	timeout time.Duration         // for an answer of the server
	blocked atomic.Bool           // the server has blocked publishing
	gaveUp  atomic.Pointer[error] // why we closed the connection ourselves, if we did
}

// dial connects within cfg.ConnectTimeout, and not beyond the end of ctx. The error is
// unavailable and holds no password.
func dial(ctx context.Context, cfg *Config, n node, name string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	c := &conn{timeout: cfg.ConnectTimeout}
	var err error
	c.Connection, err = amqp.DialConfig(n.url, amqp.Config{
		Heartbeat:       cfg.Heartbeat,
		Locale:          "en_US",
		Properties:      properties(name),
		TLSClientConfig: cfg.TLS.Clone(),
		Dial:            c.dialer(ctx),
	})
	if err == nil {
		err = context.Cause(ctx) // the wire may be closed already
	}
	if err != nil {
		if c.wire != nil {
			c.wire.Close()
		}
		return nil, waybill.UnavailableError(fmt.Errorf("connect to RabbitMQ at %s: %w", n.address, err))
	}
	go c.watchBlocked(c.NotifyBlocked(make(chan amqp.Blocking, 1)))
	return c, nil
}

func properties(name string) amqp.Table {
	p := amqp.NewConnectionProperties()
	p.SetClientConnectionName(name)
	return p
}

// dialer makes the network connection and closes it if ctx ends during the handshake.
func (c *conn) dialer(ctx context.Context) func(network, addr string) (net.Conn, error) {
	return func(network, addr string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if deadline, ok := ctx.Deadline(); ok {
			_ = nc.SetReadDeadline(deadline) // amqp091 clears it after the handshake
		}
		c.wire = &wire{Conn: nc}
		return c.wire, nil
	}
}

func (c *conn) watchBlocked(changes <-chan amqp.Blocking) {
	for b := range changes {
		c.blocked.Store(b.Active)
	}
}

// within runs calls that wait for the server's answer. If ctx ends first the connection is
// cut, because amqp091 has no other way to abandon an answer.
func (c *conn) within(ctx context.Context, call func() error) error {
	stop := context.AfterFunc(ctx, func() { c.giveUp(context.Cause(ctx)) })
	defer stop()
	if err := call(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// call is within, bounded only by time: where several callers share a connection, none may
// cut it for the others.
func (c *conn) call(call func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	return c.within(ctx, call)
}

// giveUp cuts the connection for a reason that no message on it has caused.
func (c *conn) giveUp(reason error) {
	c.gaveUp.CompareAndSwap(nil, &reason)
	c.wire.Close()
}

// lost returns the error for what was in flight on the connection when it, or a channel on
// it, ended; cause is the server's and may be nil. It wraps [contract.ErrConnectionLost],
// unless we closed the connection ourselves.
func (c *conn) lost(cause error) error {
	if reason := c.gaveUp.Load(); reason != nil {
		return waybill.UnavailableError(fmt.Errorf("connection abandoned: %w", *reason))
	}
	if cause == nil || errors.Is(cause, amqp.ErrClosed) {
		return waybill.UnavailableError(contract.ErrConnectionLost)
	}
	return waybill.UnavailableError(fmt.Errorf("%w: %w", contract.ErrConnectionLost, cause))
}

// cut ends the connection at once.
func (c *conn) cut() {
	c.wire.Close()
	_ = c.CloseDeadline(time.Now()) // it is gone
}

// close closes with a handshake, so that what was written before is known to have arrived.
func (c *conn) close(reason error) {
	c.gaveUp.CompareAndSwap(nil, &reason)
	_ = c.CloseDeadline(time.Now().Add(closeTimeout)) // closed in any case
	c.wire.Close()
}
