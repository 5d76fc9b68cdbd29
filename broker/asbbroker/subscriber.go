package asbbroker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
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

// Subscribe implements [contract.Subscriber]. The prefetch is divided among the subscription's addresses. It
// returns an error if the service does not answer at first, if an entity cannot be used, or if the broker is
// closed; a connection that is lost later is retried until it is re-established.
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
	// loop receives until ctx is done.
	loop(ctx context.Context)

	// tend keeps what is held, apart from single messages, from expiring.
	tend(ctx context.Context)

	// close closes what loop has opened, unless an unsettled delivery needs it.
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

// begins reports whether nothing has been received yet.
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

// tend keeps the locks of deliveries that wait for a slot from expiring.
func (r *run) tend(ctx context.Context) {
	brokerkit.Every(ctx, contract.ExtendInterval, nil, func() {
		for _, f := range r.feeds {
			f.tend(ctx)
		}
		for _, d := range r.queue.Waiting() {
			_ = d.Extend(ctx) // it is redelivered then
		}
	})
}

// stop ends receiving and releases deliveries that were not passed on. All of them together have
// settleTimeout: the first may have to wait for a link, and a service that does not answer is not waited for
// repeatedly.
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
