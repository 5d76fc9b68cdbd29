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

// receiver is what all consumers have in common: it takes deliveries from a subscriber, keeps
// to order and concurrency, and settles each delivery as the attempt at it says.
type receiver struct {
	name string // of the consumer group
	sub  contract.Subscriber
	cfg  Config

	// subscribe receives, as [contract.Subscriber] says.
	subscribe func(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error

	// try runs one attempt at a message that can be recorded as rec. What is under way
	// outlives ctx until work ends; nothing is begun after the end of ctx.
	try        func(ctx, work context.Context, rec inbox.Record, m *waybill.Message, redelivered bool) verdict
	buryLetter func(ctx context.Context, l inbox.Letter) (bool, error)
	requeues   rerunner // nil if letters are not run again

	// ping asks the store for something that it need not have.
	ping func(ctx context.Context) error

	// lineUp returns what takes deliveries that are handled in batches; nil without batches.
	lineUp func(ctx, work context.Context) (take func(*held))

	running  atomic.Bool
	receives reception
	periods  sync.RWMutex // held by who begins a period; for reading by who gives back because it is over
	current  atomic.Pointer[period]
	made     time.Time     // by the monotonic clock, as all that is counted from it
	answered atomic.Int64  // how long after that the store has answered last
	inside   atomic.Int32  // handlers that run in a transaction of the store
	handlers chan struct{} // one for each handler that runs
	held     *heldDeliveries
	queues   *keyQueues
	stalls   stalls
	breaker  breaker
	busyKeys busyKeys
}

// rerunner runs dead letters again that were requeued.
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

// Run handles messages until ctx is done. It then stops receiving, gives back to the broker what
// was received and not begun, which counts as no attempt, and lets handlers that are running
// finish. It returns within ShutdownGrace, or a second later if that is shorter than ten: the
// handlers' contexts end before, and if some ignore it Run leaves them behind and returns an error;
// their messages are delivered again. Otherwise it returns nil. Lost connections and an unreachable database are waited out. A
// consumer runs once at a time; a second Run, also while a handler of the first is left, returns
// an error.
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

// windDown is how long handlers whose context has ended have to return. It is taken from
// ShutdownGrace, but for a tenth of that at most.
const windDown = time.Second

// runAll receives until ctx ends, and returns when all that was begun has ended, after which it
// calls stop, which ends work.
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

// take hands a delivery to the queue of its key, or, unordered, to one of its own, which
// waits here for a free handler so that no more is received than can be handled.
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

// orderKey returns what order is kept by, and false if the delivery has no order. With offsets
// the subscriber keeps it.
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

// acquire waits for a free handler. Once ctx has ended it fails for good: what follows a
// delivery that was not begun must not be begun either.
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
// otherwise a [*waybill.StalledError] for each that it does not. After a failure receiving
// counts as well again with the first delivery, or when nothing has failed for 30 s. Health is also an
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
