package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/request"
)

// publishing is one message ready to be written.
type publishing struct {
	exchange, key string
	amqp.Publishing
}

// mandatory says that the message must reach a queue. A reply need not: when its queue is gone, so is the requester.
func (p *publishing) mandatory() bool {
	return p.exchange != amqp.DefaultExchange || !request.IsAddress(p.key)
}

// channel is a channel in confirm mode. It knows which of the messages on it were returned: each carries a unique
// number, because ids may repeat. Its owner calls publish under a lock; the rest is safe for concurrent use.
type channel struct {
	*amqp.Channel
	conn     *conn
	patience *patience
	sequence int64

	mu       sync.Mutex
	inFlight map[int64]*flight
	silent   time.Time // since when no publish has been answered; zero if all were
	refused  bool      // the server has refused a message

	barrier chan struct{} // receivable whenever all returns that arrived are recorded
	done    chan struct{} // closed when the channel is
	cause   *amqp.Error   // why, once done is closed; nil if it was not the server's doing
}

// flight is one message between publish and its confirm.
type flight struct {
	sequence int64
	size     int // of the payload
	confirm  *amqp.DeferredConfirmation
	returned bool // guarded by channel.mu
	refused  bool // likewise: known to be, whatever happens to the channel
}

// openChannel opens a channel on c and declares parts on it. It cuts c if ctx ends before that
// is done.
func openChannel(ctx context.Context, c *conn, patience *patience, parts []part) (*channel, error) {
	ch := &channel{
		conn:     c,
		patience: patience,
		inFlight: make(map[int64]*flight),
		barrier:  make(chan struct{}),
		done:     make(chan struct{}),
	}
	err := c.within(ctx, func() (err error) {
		if ch.Channel, err = c.Channel(); err != nil {
			return err
		}
		if err = ch.Confirm(false); err != nil {
			return err
		}
		_, err = (&declarer{conn: c, channel: ch.Channel}).declare(parts)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Without a buffer: the server's reader goes on to the confirm of a message only after
	// watch has taken its return.
	go ch.watch(ch.NotifyReturn(make(chan amqp.Return)), ch.NotifyClose(make(chan *amqp.Error, 1)))
	return ch, nil
}

func (c *channel) watch(returns <-chan amqp.Return, closed <-chan *amqp.Error) {
	defer close(c.done)
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				c.cause = <-closed
				return
			}
			c.recordReturn(&r)
		case c.barrier <- struct{}{}:
		}
	}
}

func (c *channel) recordReturn(r *amqp.Return) {
	sequence, _ := r.Headers[sequenceHeader].(int64)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.inFlight[sequence]; f != nil {
		f.returned = true
	}
}

// usable reports whether c can be published on.
func (c *channel) usable() bool { return !c.IsClosed() && !c.conn.IsClosed() }

// drain waits until everything in flight is answered, and reports whether it is. Nothing more may be published
// meanwhile.
func (c *channel) drain(ctx context.Context) bool {
	c.mu.Lock()
	flights := slices.Collect(maps.Values(c.inFlight))
	c.mu.Unlock()
	for _, f := range flights {
		select {
		case <-f.confirm.Done():
		case <-ctx.Done():
			return false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range flights {
		f.refused = !f.confirm.Acked() && c.usable() // amqp091 reports the same for what was lost with the channel
	}
	return true
}

// refuses reports whether the server has refused a message.
func (c *channel) refuses() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// publish writes p, or leaves it with the wire if that is corked. An error that is permanent
// concerns p alone; any other means that the connection is lost.
func (c *channel) publish(p *publishing) (*flight, error) {
	if limit := c.conn.Config.FrameSize; limit > 0 && headerFrameSize(&p.Publishing) > limit {
		return nil, waybill.PermanentError(waybill.ReasonTooLarge,
			fmt.Errorf("envelope is larger than the server's frame_max of %d bytes", limit))
	}
	c.sequence++
	f := &flight{sequence: c.sequence, size: len(p.Body)}
	p.Headers[sequenceHeader] = f.sequence
	c.mu.Lock()
	c.inFlight[f.sequence] = f
	if c.silent.IsZero() {
		c.silent = time.Now()
	}
	c.mu.Unlock()
	var err error
	if f.confirm, err = c.PublishWithDeferredConfirm(p.exchange, p.key, p.mandatory(), false, p.Publishing); err != nil {
		c.forget(f)
		return nil, err
	}
	return f, nil
}

func (c *channel) forget(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, f.sequence)
}

// results returns the results of flights, one for each that is not nil, as far as they are known now.
func (c *channel) results(ctx context.Context, flights []*flight, results []error) {
	select {
	case <-c.barrier:
	case <-c.done:
	}
	answered, missing := false, false
	for i, f := range flights {
		if f != nil {
			results[i] = c.result(ctx, f)
			answered, missing = answered || f.answered(), missing || !f.answered()
		}
	}
	c.heard(answered, missing)
}

// heard takes in whether something on the channel has been answered since the previous call, and whether an answer is
// missing. It drops the connection if nothing but heartbeats has been answered for long: a channel may wait for the
// stalled leader of a quorum queue for as long as it stalls, and forever in some releases, while other channels follow
// the next leader. A server that blocks publishing for now has said so, and resumes by itself.
func (c *channel) heard(answered, missing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent.IsZero() {
		return
	}
	switch {
	case answered && len(c.inFlight) == 0:
		c.silent = time.Time{}
	case answered:
		c.silent = time.Now()
	case missing && !c.conn.blocked.Load() && c.patience.ended(time.Since(c.silent)):
		c.conn.giveUp(errSilent)
		c.silent = time.Time{} // it is said once
	}
}

// answered reports whether there is a confirm.
func (f *flight) answered() bool { return brokerkit.Closed(f.confirm.Done()) }

func (c *channel) result(ctx context.Context, f *flight) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, f.sequence)
	switch {
	case f.returned:
		return waybill.PermanentError(waybill.ReasonUnroutable, errUnroutable)
	case !f.answered():
		return waybill.UnavailableError(fmt.Errorf("no confirm from RabbitMQ: %w", context.Cause(ctx)))
	case f.confirm.Acked():
		return nil
	case f.refused || c.usable():
		c.refused = true
		return errNacked
	}
	<-c.done // amqp091 answers "nack" to all that is in flight when a channel ends
	if limit, ok := sizeLimit(c.cause); ok && f.size > limit {
		return waybill.PermanentError(waybill.ReasonTooLarge,
			fmt.Errorf("payload has %d bytes, the server's limit is %d", f.size, limit))
	}
	switch { // no message is the cause of these
	case c.cause != nil && c.cause.Code == amqp.AccessRefused:
		return waybill.UnavailableError(fmt.Errorf("RabbitMQ refuses to let this user publish: %w", c.cause))
	case c.cause != nil && c.cause.Code == amqp.NotFound:
		return waybill.UnavailableError(fmt.Errorf("the exchange is missing: %w", c.cause))
	}
	return c.conn.lost(errorOrNil(c.cause))
}

var (
	errUnroutable = errors.New("RabbitMQ returned the message: no queue is bound where it should go")
	errNacked     = errors.New("RabbitMQ refused the message (nack)")
	errSilent     = errors.New("RabbitMQ confirms nothing that is published")
)

func errorOrNil(err *amqp.Error) error {
	if err == nil {
		return nil
	}
	return err
}

var sizeRefused = regexp.MustCompile(`message size \d+ is larger than configured max size (\d+)`)

// sizeLimit returns the server's max_message_size, if a message beyond it was why the
// server closed the channel.
func sizeLimit(cause *amqp.Error) (limit int, ok bool) {
	if cause == nil || cause.Code != amqp.PreconditionFailed {
		return 0, false
	}
	found := sizeRefused.FindStringSubmatch(cause.Reason)
	if found == nil {
		return 0, false
	}
	limit, err := strconv.Atoi(found[1])
	return limit, err == nil
}
