package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

const (
	defaultTimeout = 30 * time.Second

	// prefetch is how many replies the broker delivers before the first is acknowledged, which takes no
	// work.
	prefetch = 100
)

// retry says how long to wait before a call that the broker did not accept is repeated.
var retry = waybill.RetryPolicy{BaseDelay: 50 * time.Millisecond, MaxDelay: 2 * time.Second}

var (
	// ErrTimeout reports that no reply came in time. The request may still have been handled, or be
	// handled later.
	ErrTimeout = errors.New("request: no reply in time")

	// ErrStopped reports that [Client.Run] has ended, so that no reply can arrive.
	ErrStopped = errors.New("request: the client has stopped")
)

// Config configures a [Client].
type Config struct {
	// Source names the service in requests that name no source themselves, and the client in
	// events. At most [waybill.MaxSourceLen] bytes. Required.
	Source string

	// Timeout is how long [Client.Request] waits for a reply if its context has no deadline.
	// Optional; the default is 30 seconds.
	Timeout time.Duration

	// Observer receives published requests and late replies. Optional; the default logs to
	// slog.Default.
	Observer observe.Observer
}

// Client sends requests and receives the replies. It is safe for concurrent use.
type Client struct {
	cfg     Config
	broker  Broker
	replies ReplyOpener

	started atomic.Bool
	ready   chan struct{} // closed once address is set
	ended   chan struct{} // closed when Run has returned
	address string

	mu    sync.Mutex
	calls map[string]*call // waiting calls, by the request's id
}

// NewClient returns a client that publishes and receives with broker. The error is an
// [*waybill.InvalidError]: a field of cfg is wrong, or the broker is no [ReplyOpener].
func NewClient(broker Broker, cfg Config) (*Client, error) {
	replies, ok := broker.(ReplyOpener)
	switch {
	case broker == nil:
		return nil, invalidf("broker", "is required")
	case !ok:
		return nil, invalidf("broker", "%T cannot receive replies; RabbitMQ, NATS, Kafka, Redis, Service Bus and the broker in memory can", broker)
	case cfg.Source == "":
		return nil, invalidf("request.Config.Source", "is required")
	case len(cfg.Source) > waybill.MaxSourceLen:
		return nil, invalidf("request.Config.Source", "has %d bytes, the limit is %d", len(cfg.Source), waybill.MaxSourceLen)
	case cfg.Timeout < 0:
		return nil, invalidf("request.Config.Timeout", "is %v; it must be positive", cfg.Timeout)
	case cfg.Timeout == 0:
		cfg.Timeout = defaultTimeout
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Client{
		cfg:     cfg,
		broker:  broker,
		replies: replies,
		ready:   make(chan struct{}),
		ended:   make(chan struct{}),
		calls:   make(map[string]*call),
	}, nil
}

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Run opens the reply destination and receives replies until ctx is done; it then returns nil.
// While the broker does not answer it retries. Any other error is permanent. Run may be called
// once; requests wait until it has opened the destination, and fail with [ErrStopped] when it has
// ended.
func (c *Client) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("request: the client was run before")
	}
	defer close(c.ended)
	var replies contract.Subscriber
	err := persist(ctx, func() (err error) {
		c.address, replies, err = c.replies.OpenReplies(ctx)
		return err
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	close(c.ready)
	return persist(ctx, func() error { return replies.Subscribe(ctx, prefetch, c.receive) })
}

// persist repeats do while the broker is unavailable. It returns nil when ctx is
// done.
func persist(ctx context.Context, do func() error) error {
	for failures := 1; ; failures++ {
		began := time.Now()
		err := do()
		if ctx.Err() != nil {
			return nil
		}
		if !waybill.IsUnavailable(err) {
			return err
		}
		if time.Since(began) > retry.MaxDelay { // it worked for a while
			failures = 1
		}
		loop.Sleep(ctx, backoff.Delay(retry, failures))
	}
}

// receive passes a reply to the call that waits for it. One that does not decode has no
// CausationID, or is passed on as far as it was decoded.
func (c *Client) receive(d contract.Delivery) {
	m, err := d.Message()
	if w := c.take(m.CausationID); w != nil {
		w.replied <- answer{*m, err}
	} else {
		c.cfg.Observer.Observe(context.Background(), observe.Event{
			Op: observe.OpLateReply, Name: c.cfg.Source, Type: m.Type, IDs: []string{m.ID}, Count: 1,
		})
	}
	_ = d.Ack(context.Background()) // else it is redelivered, and dropped
}

// Request publishes m, to its Topic or its To, and returns the reply. It waits until ctx ends or,
// if that has no deadline, for Config.Timeout, including the time until [Client.Run] has opened the
// reply destination. m.ExpiresAt becomes that time unless it is earlier; m must not have a
// DeliverAt. Empty fields such as ID, Source and Time are filled in. Payload and headers are
// copied.
//
// The error is [ErrTimeout] when the time is up, with the latest reason why the broker had not
// accepted the request by then, if it had not; the cause of ctx if that was cancelled;
// [ErrStopped]; an [*waybill.InvalidError], also for an ID that another waiting request has; or a
// permanent error if the broker refuses the message, for instance because it is unroutable. What a
// handler answers is always a reply, never an error. After any error but the last two the request
// may have been handled: make its effect idempotent, or repeat the request with the same ID, which
// the inbox of the other side recognises; it then does not answer again.
func (c *Client) Request(ctx context.Context, m waybill.Message) (waybill.Message, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	w := &call{replied: make(chan answer, 1), refused: make(chan error, 1)}
	if err := c.opened(ctx, w); err != nil {
		return waybill.Message{}, err
	}
	m, err := c.prepare(ctx, m)
	if err != nil {
		return waybill.Message{}, err
	}
	if !c.register(m.ID, w) {
		return waybill.Message{}, invalidf("ID", "another request with this id is waiting for its reply")
	}
	defer c.take(m.ID)
	go c.publish(ctx, &m, w)
	select {
	case a := <-w.replied:
		return a.message, a.err
	case err := <-w.refused:
		return waybill.Message{}, err
	case <-c.ended:
		return waybill.Message{}, ErrStopped
	case <-ctx.Done():
		return waybill.Message{}, w.late(ctx)
	}
}

// limit adds the default deadline to ctx.
func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// opened waits for the reply destination.
func (c *Client) opened(ctx context.Context, w *call) error {
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		return ErrStopped
	case <-ctx.Done():
		return w.late(ctx)
	}
}

// prepare returns a complete and valid copy of m that asks for a reply.
func (c *Client) prepare(ctx context.Context, m waybill.Message) (waybill.Message, error) {
	if !m.DeliverAt.IsZero() {
		return m, invalidf("DeliverAt", "is set; a request is published at once")
	}
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = make(map[string]string, 1)
	}
	m.Headers[AddressHeader] = c.address
	m.Payload = bytes.Clone(m.Payload)
	if m.Source == "" {
		m.Source = c.cfg.Source
	}
	if m.Time.IsZero() {
		m.Time = time.Now().UTC()
	}
	if deadline, _ := ctx.Deadline(); m.ExpiresAt.IsZero() || deadline.Before(m.ExpiresAt) {
		m.ExpiresAt = deadline.UTC()
	}
	m.Complete()
	return m, m.Validate()
}

// register adds a waiting call, and returns false if another one waits under its id.
func (c *Client) register(id string, w *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[id] != nil {
		return false
	}
	c.calls[id] = w
	return true
}

// take removes and returns the call that waits under an id; nil if none does.
func (c *Client) take(id string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.calls[id]
	delete(c.calls, id)
	return w
}
