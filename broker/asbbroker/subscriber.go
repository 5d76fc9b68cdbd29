package asbbroker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/handover"
	"github.com/waybill-go/waybill/request"
)

var _ contract.Subscriber = (*subscriber)(nil)

// reconnect says how long to wait before receiving is tried again.
var reconnect = waybill.RetryPolicy{BaseDelay: 100 * time.Millisecond, MaxDelay: 15 * time.Second}

// subscriber receives for one consumer group.
type subscriber struct {
	broker *Broker
	sub    consumer.Subscription
}

// Subscribe implements [contract.Subscriber]. The prefetch is divided among the subscription's
// addresses. It returns an error if the service does not answer at first, if an entity is such that
// it cannot be used, or if the broker is closed; a connection that is lost later is made again
// for as long as it takes.
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	if prefetch < 1 {
		return invalid("prefetch", "is %d; it must be at least 1", prefetch)
	}
	if err := s.broker.names.valid(s.sub); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	within, cancel := s.broker.within(ctx)
	defer cancel()
	if err := s.broker.ensure(within, s.sub); err != nil {
		switch {
		case s.broker.closed():
			return waybill.UnavailableError(errClosed)
		case ctx.Err() != nil:
			return nil
		}
		return err
	}
	r := newRun(s.broker, s.sub, prefetch)
	defer r.stop()
	r.start(within)
	return r.queue.Serve(ctx, s.broker.ctx.Done(), waybill.UnavailableError(errClosed), func(d *delivery) { deliver(d) })
}

// feed is something that a run receives from.
type feed interface {
	// loop receives until ctx ends.
	loop(ctx context.Context)

	// tend keeps what is held from lapsing, apart from single messages.
	tend(ctx context.Context)

	// close ends what loop has opened, as far as nothing is unsettled that needs it.
	close()
}

// run is one Subscribe at work.
type run struct {
	broker *Broker
	sub    consumer.Subscription
	feeds  []feed
	queue  *handover.Queue[*delivery]
	began  time.Time
	works  atomic.Bool // something was received

	cancel  context.CancelFunc
	working sync.WaitGroup
}

func newRun(b *Broker, sub consumer.Subscription, prefetch int) *run {
	r := &run{broker: b, sub: sub, queue: handover.New(prefetch, (*delivery).hand), began: time.Now()}
	addresses := b.names.addresses(sub)
	for i, a := range addresses {
		r.add(a, handover.Share(prefetch, i, len(addresses)), b.cfg.Sessions && !request.IsAddress(a.to))
	}
	if !request.IsAddress(sub.To) {
		r.add(address{queue: b.names.retry(sub.Group)}, handover.Share(prefetch, 0, len(addresses)), false)
	}
	return r
}

func (r *run) add(a address, share int, sessions bool) {
	p := pool{run: r, address: a, quota: make(chan struct{}, share)}
	if sessions {
		r.feeds = append(r.feeds, newSessionFeed(p))
	} else {
		r.feeds = append(r.feeds, &source{pool: p})
	}
}

// push queues what was received.
func (r *run) push(d *delivery) {
	r.works.Store(true)
	r.queue.Push(d)
}

// begins reports whether it is not known yet that anything can be received.
func (r *run) begins() bool {
	return !r.works.Load() && time.Since(r.began) < r.broker.cfg.ConnectTimeout
}

// start begins to receive, until ctx ends.
func (r *run) start(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	for _, f := range r.feeds {
		r.working.Go(func() { f.loop(ctx) })
	}
	r.working.Go(func() { r.tend(ctx) })
}

// tend keeps what waits for a slot from lapsing.
func (r *run) tend(ctx context.Context) {
	tick := time.NewTicker(contract.ExtendInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, f := range r.feeds {
			f.tend(ctx)
		}
		for _, d := range r.queue.Waiting() {
			_ = d.Extend(ctx) // it is redelivered then
		}
	}
}

// stop ends receiving and gives back what was not passed on. All of it together has settleTimeout: the first
// may have to wait for a link, and a service that does not answer is not waited for again and again.
func (r *run) stop() {
	r.cancel()
	r.working.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for _, d := range r.queue.Drain() {
		d.giveBack(ctx)
	}
	for _, f := range r.feeds {
		f.close()
	}
}
