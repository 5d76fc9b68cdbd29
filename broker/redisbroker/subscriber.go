package redisbroker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/handover"
	"github.com/waybill-go/waybill/request"
)

type subscriber struct {
	broker       *Broker
	subscription consumer.Subscription
}

// Subscribe creates missing streams and groups, and receives from them. The prefetch is divided
// among the subscription's addresses. It returns an error if the subscription or prefetch is wrong
// or a key is not a stream; and, unavailable, if Redis does not answer at first, and once the broker
// is closed. It returns up to half a second after ctx is done.
func (s *subscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	sources, err := sourcesOf(s.broker.cfg.Prefix, s.subscription)
	if err != nil {
		return err
	}
	if prefetch < 1 {
		return invalidf("prefetch", "is %d; it must be at least 1", prefetch)
	}
	r := newRun(s.broker, prefetch)
	for _, src := range sources {
		if err := r.declare(ctx, src); err != nil || ctx.Err() != nil {
			return brokerkit.Ended(ctx, err)
		}
	}
	r.start(sources, prefetch)
	defer r.stop()
	return r.queue.Serve(ctx, s.broker.done, waybill.UnavailableError(errClosed), func(d *delivery) { deliver(d) })
}

// run is one Subscribe at work.
type run struct {
	broker  *Broker
	readers []*reader
	queue   *handover.Queue[*delivery]
	quit    context.CancelFunc
	working sync.WaitGroup
}

func newRun(b *Broker, prefetch int) *run {
	return &run{broker: b, queue: handover.New(prefetch, (*delivery).hand)}
}

// declare creates what is missing of a source.
func (r *run) declare(ctx context.Context, s source) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if err := r.broker.ready(ctx); err != nil {
		return err
	}
	return r.broker.declare(ctx, s)
}

// start makes a reader for each source, all under one new name.
func (r *run) start(sources []source, prefetch int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.quit = cancel
	name := consumerName()
	for i, s := range sources {
		share := handover.Share(prefetch, i, len(sources))
		rd := &reader{source: s, run: r, broker: r.broker, consumer: name, share: share, freed: make(chan struct{}, 1)}
		r.readers = append(r.readers, rd)
		r.broker.readers.Add(1)
		r.working.Go(func() {
			defer r.broker.readers.Done()
			rd.receive(ctx)
		})
	}
	r.working.Go(func() { r.tend(ctx) })
	r.working.Go(func() {
		select {
		case <-ctx.Done():
		case <-r.broker.done:
			cancel()
		}
	})
}

// consumerName returns a new name for each Subscribe, which tells where it runs.
func consumerName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%s", cmp.Or(host, "unknown"), waybill.NewID())
}

// tend trims the streams and keeps deliveries in the queue from being taken over. What fails is
// repeated the next time.
func (r *run) tend(ctx context.Context) {
	extended := time.Now()
	brokerkit.Every(ctx, trimInterval, nil, func() {
		for _, rd := range r.readers {
			command, cancel := context.WithTimeout(ctx, commandTimeout)
			_ = rd.trim(command)
			cancel()
		}
		if time.Since(extended) >= min(r.broker.cfg.ClaimAfter, request.Expiry)/3 {
			extended = time.Now()
			r.extendQueue(ctx)
			r.prolong(ctx)
		}
	})
}

// prolong keeps the reply destinations among the sources.
func (r *run) prolong(ctx context.Context) {
	for _, rd := range r.readers {
		if rd.source.replies() {
			command, cancel := context.WithTimeout(ctx, commandTimeout)
			_ = r.broker.prolong(command, rd.source)
			cancel()
		}
	}
}

func (r *run) extendQueue(ctx context.Context) {
	ids := make(map[*reader][]string)
	for _, d := range r.queue.Waiting() {
		ids[d.reader] = append(ids[d.reader], d.id)
	}
	for rd, list := range ids {
		command, cancel := context.WithTimeout(ctx, commandTimeout)
		_, _ = r.broker.extend(command, rd.source, rd.consumer, list...)
		cancel()
	}
}

// stop ends the readers and releases what was not passed on.
func (r *run) stop() {
	r.quit()
	r.working.Wait()
	r.broker.giveBack(r.queue.Drain())
}
