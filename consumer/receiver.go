package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// receiver is what all consumers have in common: it takes deliveries from a subscriber, enforces
// order and concurrency, and settles each delivery by the result of its attempt.
type receiver struct {
	name string // of the consumer group
	sub  contract.Subscriber
	cfg  Config

	// subscribe receives, as [contract.Subscriber] says.
	subscribe func(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error

	// try runs one attempt at a message that can be recorded as rec. An attempt in flight outlives ctx
	// until work ends; none is started after the end of ctx.
	try        func(ctx, work context.Context, rec inbox.Record, m *waybill.Message, redelivered bool) verdict
	buryLetter func(ctx context.Context, l inbox.Letter) (bool, error)
	requeues   rerunner // nil if dead letters are not requeued here

	// ping makes a cheap request to the store.
	ping func(ctx context.Context) error

	// lineUp returns what takes deliveries that are handled in batches; nil without batches.
	lineUp func(ctx, work context.Context) (take func(*held))

	running  atomic.Bool
	receives reception
	periods  sync.RWMutex // write-locked to begin a period, read-locked to requeue because it is over
	current  atomic.Pointer[period]
	made     time.Time     // by the monotonic clock, as all that is counted from it
	answered atomic.Int64  // how long after that the store has answered last
	inside   atomic.Int32  // handlers running in a transaction of the store
	handlers chan struct{} // one for each running handler
	held     *heldDeliveries
	queues   *keyQueues
	stalls   stalls
	breaker  breaker
	busyKeys busyKeys
}

// rerunner handles requeued dead letters.
type rerunner interface {
	run(ctx, work context.Context)
	health() error
}

func newReceiver(b Broker, s Subscription, cfg Config) (*receiver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	sub := b.Subscriber(s)
	if sub == nil {
		return nil, &waybill.InvalidError{Field: "b", Reason: "its Subscriber is nil"}
	}
	if err := cfg.checkRetention(sub); err != nil {
		return nil, err
	}
	return &receiver{
		name:      s.Group,
		sub:       sub,
		cfg:       cfg,
		subscribe: sub.Subscribe,
		made:      time.Now(),
		handlers:  make(chan struct{}, cfg.Concurrency),
		held:      newHeldDeliveries(),
		queues:    newKeyQueues(),
	}, nil
}

// Run handles messages until ctx is done. It then stops receiving, requeues what was received and not started,
// which counts as no attempt, and lets running handlers finish. It returns within ShutdownGrace, or a second
// later if that is shorter than ten: the handlers' contexts end before, and if some ignore that Run abandons
// them and returns an error; their messages are redelivered. Otherwise it returns nil. Lost connections and an
// unreachable database are waited out. A consumer runs once at a time; a second Run, also while an abandoned
// handler of the first is running, returns an error.
func (c *receiver) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("consumer: is running already")
	}
	// What is being handled outlives ctx by the grace period.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer c.running.Store(false)
		c.runAll(ctx, work, stop)
	}()
	<-ctx.Done()
	defer stop()
	grace := c.cfg.ShutdownGrace - min(c.cfg.ShutdownGrace/10, windDown)
	defer time.AfterFunc(grace, stop).Stop()
	left := time.NewTimer(grace + windDown)
	defer left.Stop()
	select {
	case <-ended:
		return nil
	case <-left.C:
		return fmt.Errorf("consumer %s: handlers, %d at most, still run after ShutdownGrace, %v, although their contexts have ended; their messages are delivered again", c.name, len(c.handlers), c.cfg.ShutdownGrace)
	}
}

// windDown is how long handlers have to return once their context has ended. It is taken from
// ShutdownGrace, but at most a tenth of that.
const windDown = time.Second

// runAll receives until ctx ends, waits until everything that was started has ended, calls stop,
// which ends work, and returns.
func (c *receiver) runAll(ctx, work context.Context, stop func()) {
	var background sync.WaitGroup
	background.Go(func() { c.held.extend(work) })
	if c.requeues != nil {
		c.queues.spawn(func() { c.requeues.run(ctx, work) })
	}
	c.receiveAll(ctx, work)
	c.queues.wait()
	stop()
	background.Wait()
}

// take hands a delivery to the queue of its key, or, unordered, to one of its own, which waits here
// for a free handler, so that no more is received than can be handled.
func (c *receiver) take(ctx, work context.Context, d *held) {
	if key, ok := c.orderKey(d); ok {
		d.key = key
		c.stalls.change(key, 1)
		behind := func() []*held { return c.queues.leave(key) }
		if !c.queues.add(ctx, key, d, func(d *held) bool { return c.handleInOrder(work, d, behind) }) {
			c.drop(work, []*held{d})
		}
		return
	}
	if !c.acquire(ctx) {
		c.giveBack(work, d)
		return
	}
	c.queues.spawn(func() {
		defer c.releaseHandler()
		c.handle(ctx, work, d)
	})
}

// orderKey returns the ordering key, and false if the delivery has none. With offsets the
// subscriber keeps the order.
func (c *receiver) orderKey(d *held) (string, bool) {
	if c.cfg.Order != OrderByKey || c.cfg.Offsets != OffsetsOff {
		return "", false
	}
	m, err := d.Message()
	if err != nil || m.Key == "" {
		return "", false
	}
	return m.Address() + "\x00" + m.Key, true
}

// acquire waits for a free handler. Once ctx has ended it always fails: what follows a delivery
// that was not started must not be started either.
func (c *receiver) acquire(ctx context.Context) bool {
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

func (c *receiver) releaseHandler() { <-c.handlers }

// Health returns nil while the consumer receives and looks for requeued dead letters, and
// otherwise a [*waybill.StalledError] for each loop that has stalled. After a failure receiving counts
// as healthy again with the first delivery, or when nothing has failed for 30 s. Health is also an
// error while other transactions hold the inbox rows of messages for longer than a handler may take.
func (c *receiver) Health() error {
	err := errors.Join(c.receives.health(c.receiveLoop()), c.busyKeys.health(c.receiveLoop(), time.Now(), c.holdLimit()))
	if c.requeues == nil {
		return err
	}
	return errors.Join(err, c.requeues.health())
}

func (c *receiver) receiveLoop() string { return "consumer " + c.name + " receive" }

func (c *receiver) observe(ctx context.Context, e observe.Event) {
	e.Name, e.Consumer = c.name, c.name
	c.cfg.Observer.Observe(ctx, e)
}
