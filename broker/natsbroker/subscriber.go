package natsbroker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/handover"
)

// tendInterval is how often a subscription checks its requests.
const tendInterval = time.Second

type subscriber struct {
	broker       *Broker
	subscription consumer.Subscription
}

// Subscribe declares the group's durable consumers and receives from them. The prefetch is
// divided among the subscription's addresses. It returns an error if the subscription or prefetch is
// wrong, the stream is gone, or the server refuses a consumer; and, unavailable, if the server does
// not answer at first, and once the broker is closed.
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	durables, err := durablesOf(s.broker.cfg.SubjectPrefix, s.subscription)
	if err != nil {
		return err
	}
	if prefetch < 1 {
		return invalidf("prefetch", "is %d; it must be at least 1", prefetch)
	}
	r := newRun(s.broker, prefetch)
	if err := r.declare(ctx, durables); err != nil || ctx.Err() != nil {
		return brokerkit.Ended(ctx, err)
	}
	defer r.stop()
	if err := r.start(durables, prefetch); err != nil {
		return err
	}
	return r.queue.Serve(ctx, s.broker.done, waybill.UnavailableError(errClosed), func(d *delivery) { deliver(d) })
}

// run is one Subscribe at work.
type run struct {
	broker  *Broker
	pullers []*puller
	queue   *handover.Queue[*delivery]
	kicked  chan struct{} // has a value if a puller needs repair
	quit    context.CancelFunc
	tending sync.WaitGroup

	stops    sync.RWMutex
	stopping bool // refused messages are left to stop
}

func newRun(b *Broker, prefetch int) *run {
	return &run{
		broker: b,
		queue:  handover.New(prefetch, (*delivery).hand),
		kicked: make(chan struct{}, 1),
		quit:   func() {},
	}
}

// declare creates what is missing on the server.
func (r *run) declare(ctx context.Context, durables []durable) error {
	if err := r.broker.prepare(ctx); err != nil {
		return err
	}
	for _, d := range durables {
		if err := r.broker.declare(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// start makes the pullers and their first requests.
func (r *run) start(durables []durable, prefetch int) error {
	for i, d := range durables {
		p, err := newPuller(r, d, handover.Share(prefetch, i, len(durables)))
		if err != nil {
			return err
		}
		r.pullers = append(r.pullers, p)
		r.broker.pullers.Add(p)
	}
	for _, p := range r.pullers {
		p.repaired()
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.quit = cancel
	r.tending.Go(func() { r.tend(ctx) })
	return nil
}

func (r *run) kick() { handover.Signal(r.kicked) }

// tend checks the pullers, and keeps deliveries in the queue from expiring.
func (r *run) tend(ctx context.Context) {
	extended := time.Now()
	brokerkit.Every(ctx, tendInterval, r.kicked, func() {
		now := time.Now()
		for _, p := range r.pullers {
			if p.needsRepair(now) {
				r.repair(ctx, p)
			}
		}
		if now.Sub(extended) >= r.broker.cfg.AckWait/3 {
			extended = now
			r.extendQueue()
		}
	})
}

// repair declares a puller's consumer again, which recreates it if it was removed.
func (r *run) repair(ctx context.Context, p *puller) {
	err := r.broker.declare(ctx, p.durable)
	switch {
	case err == nil:
		p.repaired()
	case waybill.IsUnavailable(err):
		p.postpone()
	default:
		r.queue.Fail(err)
	}
}

func (r *run) extendQueue() {
	for _, d := range r.queue.Waiting() {
		d.Extend(context.Background())
	}
}

// refuse has the server redeliver a message at once. A stop waits until that is answered, and itself gives
// back messages that are refused meanwhile.
func (r *run) refuse(ctx context.Context, d *delivery) error {
	r.stops.RLock()
	defer r.stops.RUnlock()
	if !r.stopping {
		return d.refuse(ctx, nak)
	}
	err := d.close("retry")
	if err == nil {
		d.left.Store(true)
		r.queue.Push(d)
	}
	return err
}

// stop ends the pullers and gives back what was not passed on, or refused meanwhile, in the order of the
// stream, in which it is redelivered. It waits until the server has confirmed that: otherwise the next
// subscriber would get later messages first.
func (r *run) stop() {
	r.quit()
	r.tending.Wait()
	r.stops.Lock()
	r.stopping = true
	r.stops.Unlock()
	for _, p := range r.pullers {
		p.stop()
		r.broker.pullers.Remove(p)
	}
	r.stops.Lock()
	defer r.stops.Unlock()
	r.stopping = false
	left := r.queue.Drain()
	slices.SortStableFunc(left, func(a, b *delivery) int { return cmp.Compare(a.sequence, b.sequence) })
	last := make(map[*puller]*delivery)
	for _, d := range left {
		last[d.puller] = d
	}
	for _, d := range left {
		d.giveBack(last[d.puller] == d)
	}
}
