package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
)

// feed is an in-memory broker that always has another message. One of each hundred, or as
// failing says, fails twice: first in its batch, then individually.
type feed struct {
	failing int // 0 for none

	next  func() waybill.Message
	made  atomic.Int64
	acked atomic.Int64
	fails sync.Map // *atomic.Int64 of the remaining failures, by message id
}

const failures = 2

func (f *feed) Subscriber(consumer.Subscription) contract.Subscriber { return f }

func (f *feed) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	room := make(chan struct{}, prefetch)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		m := f.next()
		if n := f.made.Add(1); f.failing > 0 && n%int64(f.failing) == 0 {
			left := &atomic.Int64{}
			left.Store(failures)
			f.fails.Store(m.ID, left)
		}
		deliver(&fed{feed: f, ctx: ctx, m: &m, room: room, deliver: deliver})
	}
}

// refuse returns the error if the handler is to fail now.
func (f *feed) refuse(m *waybill.Message) error {
	if f.failing == 0 {
		return nil
	}
	if left, ok := f.fails.Load(m.ID); ok && left.(*atomic.Int64).Add(-1) >= 0 {
		return errors.New("refused")
	}
	return nil
}

type fed struct {
	*feed
	ctx     context.Context
	m       *waybill.Message
	again   bool
	room    chan struct{}
	deliver func(contract.Delivery)
}

func (d *fed) Message() (*waybill.Message, error) { return d.m, nil }
func (d *fed) Redelivered() bool                  { return d.again }
func (d *fed) Extend(context.Context) error       { return nil }

func (d *fed) Ack(context.Context) error {
	d.acked.Add(1)
	<-d.room
	return nil
}

func (d *fed) Retry(_ context.Context, delay time.Duration) error {
	next := *d
	next.again = true
	time.AfterFunc(delay, func() {
		if d.ctx.Err() == nil {
			d.deliver(&next)
		}
	})
	return nil
}

// feed runs a consumer for a turn and returns how many messages per second it has
// acknowledged, after a warm-up that does not count.
func (h *handling) feed(ctx context.Context, f *feed, cfg consumer.Config, many consumer.BatchHandler[pgx.Tx]) (float64, error) {
	f.next = h.arrival
	sub := consumer.Subscription{Group: "billing", Topics: []string{topic}}
	cfg.Concurrency, cfg.Observer = connections, quiet
	cfg.Retry = waybill.RetryPolicy{BaseDelay: 10 * time.Millisecond}
	c, err := consumer.New(f, sub, h.inbox, func(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
		if err := f.refuse(m); err != nil {
			return err
		}
		return business(ctx, tx)
	}, cfg)
	if many != nil {
		c, err = consumer.NewBatch(f, sub, h.inbox, many, cfg)
	}
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	time.Sleep(h.slice() / 5)
	began, before := time.Now(), f.acked.Load()
	time.Sleep(h.slice())
	rate := float64(f.acked.Load()-before) / time.Since(began).Seconds()
	stop()
	return rate, <-ended
}
