package consumer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// listSubscriber delivers a list of messages once, and what is to be retried again.
type listSubscriber struct {
	list    []*waybill.Message
	acked   atomic.Int32
	retried atomic.Int32
}

func (s *listSubscriber) Subscribe(ctx context.Context, _ int, deliver func(Delivery)) error {
	list := s.list
	s.list = nil
	for _, m := range list {
		deliver(&listDelivery{sub: s, m: m})
	}
	<-ctx.Done()
	return nil
}

type listDelivery struct {
	sub *listSubscriber
	m   *waybill.Message
}

func (d *listDelivery) Message() (*waybill.Message, error) { return d.m, nil }
func (d *listDelivery) Redelivered() bool                  { return false }
func (d *listDelivery) Ack(context.Context) error          { d.sub.acked.Add(1); return nil }
func (d *listDelivery) Extend(context.Context) error       { return nil }

func (d *listDelivery) Retry(context.Context, time.Duration) error {
	d.sub.retried.Add(1)
	return nil
}

func newConsumer(t *testing.T, sub Subscriber, box inbox.Inbox[int], h Handler[int], cfg Config) *Consumer[int] {
	t.Helper()
	cfg.Name = "billing"
	if cfg.Observer == nil {
		cfg.Observer = &noted{}
	}
	c, err := New(sub, box, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// runUntilIdle runs c in a bubble until nothing is left to do at once, and stops it.
func runUntilIdle(t *testing.T, c *Consumer[int]) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	synctest.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}
