package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// Consumer takes deliveries from a subscriber and handles each message once.
type Consumer[Tx any] struct {
	sub     Subscriber
	box     inbox.Inbox[Tx]
	handler Handler[Tx]
	cfg     Config

	running  atomic.Bool
	receives reception
	handlers chan struct{} // one for each handler that runs
	held     *heldDeliveries
	queues   *keyQueues
	requeues *loop.Loop
}

// New returns a consumer that receives from sub, records in box and handles with h. The
// error is an [*waybill.InvalidError] that names what is missing or wrong.
func New[Tx any](sub Subscriber, box inbox.Inbox[Tx], h Handler[Tx], cfg Config) (*Consumer[Tx], error) {
	switch {
	case sub == nil:
		return nil, &waybill.InvalidError{Field: "sub", Reason: "a subscriber is required"}
	case box == nil:
		return nil, &waybill.InvalidError{Field: "box", Reason: "an inbox is required"}
	case h == nil:
		return nil, &waybill.InvalidError{Field: "h", Reason: "a handler is required"}
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkRetention(sub); err != nil {
		return nil, err
	}
	return &Consumer[Tx]{
		sub:      sub,
		box:      box,
		handler:  h,
		cfg:      cfg,
		handlers: make(chan struct{}, cfg.Concurrency),
		held:     newHeldDeliveries(),
		queues:   newKeyQueues(),
		requeues: &loop.Loop{Name: "consumer " + cfg.Name + " requeue", Observer: cfg.Observer},
	}, nil
}

// Run handles messages until ctx is done. It then stops receiving, lets handlers that are
// running finish for at most ShutdownGrace, and returns nil; what was received and not begun
// is redelivered by the broker, and no attempt is counted. Lost connections and an
// unreachable database are waited out. A consumer runs once at a time; a second Run returns
// an error.
func (c *Consumer[Tx]) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("consumer: is running already")
	}
	defer c.running.Store(false)

	// What is being handled outlives ctx by the grace period.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { c.held.extend(work) })
	c.queues.spawn(func() {
		c.requeues.Run(ctx, func(ctx context.Context) error { return c.requeueRound(ctx, work) })
	})

	receive := &loop.Loop{Name: c.receiveLoop(), Observer: c.cfg.Observer}
	receive.Run(ctx, func(ctx context.Context) (err error) {
		c.receives.begin()
		defer func() { c.receives.end(err) }()
		return c.sub.Subscribe(ctx, c.cfg.Prefetch, func(d Delivery) { c.take(ctx, work, c.held.add(d)) })
	})

	grace := time.AfterFunc(c.cfg.ShutdownGrace, stop)
	c.queues.wait()
	grace.Stop()
	stop()
	background.Wait()
	return nil
}

// take hands a delivery to the queue of its key, or, unordered, to one of its own, which
// waits here for a free handler so that no more is received than can be handled.
func (c *Consumer[Tx]) take(ctx, work context.Context, d *held) {
	c.receives.delivers()
	if key, ok := c.orderKey(d); ok {
		c.queues.add(key, d, func(d *held) { c.handleInOrder(ctx, work, d) })
		return
	}
	if !c.acquire(ctx) {
		c.held.remove(d)
		return // shutting down: the broker redelivers it
	}
	c.queues.spawn(func() {
		defer c.releaseHandler()
		c.handle(ctx, work, d)
	})
}

// orderKey returns what order is kept by, and false if the delivery has no order.
func (c *Consumer[Tx]) orderKey(d *held) (string, bool) {
	if c.cfg.Order != OrderByKey {
		return "", false
	}
	m, err := d.Message()
	if err != nil || m.Key == "" {
		return "", false
	}
	return m.Address() + "\x00" + m.Key, true
}

// acquire waits for a free handler. Once ctx has ended it fails for good: what follows a
// delivery that was not begun must not be begun either.
func (c *Consumer[Tx]) acquire(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case c.handlers <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Consumer[Tx]) releaseHandler() { <-c.handlers }

// Health returns nil while the consumer receives and looks for requeued dead letters, and
// otherwise a [*waybill.StalledError] for each that it does not. After a failure receiving
// counts as well again with the first delivery, or when nothing has failed for 30 s.
func (c *Consumer[Tx]) Health() error {
	return errors.Join(
		c.receives.health(c.receiveLoop()),
		c.requeues.Health(max(3*c.cfg.RequeueInterval, 3*c.cfg.HandlerTimeout+c.cfg.RequeueInterval)), // for a place, alone, and to run
	)
}

func (c *Consumer[Tx]) receiveLoop() string { return "consumer " + c.cfg.Name + " receive" }

func (c *Consumer[Tx]) observe(ctx context.Context, e waybill.Event) {
	e.Name, e.Consumer = c.cfg.Name, c.cfg.Name
	c.cfg.Observer.Observe(ctx, e)
}
