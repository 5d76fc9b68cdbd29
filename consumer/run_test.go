package consumer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// listSubscriber delivers a list of messages once, and what is to be retried again.
type listSubscriber struct {
	list    []*waybill.Message
	acked   atomic.Int32
	retried atomic.Int32
}

func (s *listSubscriber) Subscribe(ctx context.Context, _ int, deliver func(contract.Delivery)) error {
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

// gives is a broker with one subscriber.
type gives struct{ sub contract.Subscriber }

func (g gives) Subscriber(Subscription) contract.Subscriber { return g.sub }

// billing is what the consumers under test receive.
var billing = Subscription{Group: "billing", Topics: []string{"orders"}}

func newConsumer(t *testing.T, sub contract.Subscriber, box contract.Inbox[int], h Handler[int], cfg Config) *Consumer[int] {
	t.Helper()
	if cfg.Observer == nil {
		cfg.Observer = &noted{}
	}
	c, err := New(gives{sub}, billing, box, h, cfg)
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

// queueSubscriber is a broker of one queue: it delivers up to the prefetch, requeues what is to be
// retried when it is due, and counts the calls it receives.
type queueSubscriber struct {
	mu        sync.Mutex
	ready     []*queued
	changed   chan struct{}
	unsettled int // with the consumer
	acked     []string
	extended  int
	prefetch  int // of the latest subscription
}

type queued struct {
	m     *waybill.Message
	again bool
}

func newQueue(msgs ...*waybill.Message) *queueSubscriber {
	s := &queueSubscriber{changed: make(chan struct{}, 1)}
	s.publish(msgs...)
	return s
}

func (s *queueSubscriber) publish(msgs ...*waybill.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range msgs {
		s.ready = append(s.ready, &queued{m: m})
	}
	s.signal()
}

func (s *queueSubscriber) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *queueSubscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	subscription := &atomic.Int32{}
	s.mu.Lock()
	s.prefetch = prefetch
	s.signal()
	s.mu.Unlock()
	for ctx.Err() == nil {
		if d := s.next(subscription, prefetch); d != nil {
			deliver(d)
			continue
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *queueSubscriber) next(subscription *atomic.Int32, prefetch int) contract.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 || int(subscription.Load()) >= prefetch {
		return nil
	}
	q := s.ready[0]
	s.ready = s.ready[1:]
	s.unsettled++
	subscription.Add(1)
	return &queueDelivery{s, q, subscription}
}

// settled returns the ids of what was acknowledged, in order, and how much is with the consumer.
func (s *queueSubscriber) settled() (acked []string, unsettled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acked), s.unsettled
}

type queueDelivery struct {
	sub          *queueSubscriber
	q            *queued
	subscription *atomic.Int32
}

func (d *queueDelivery) Message() (*waybill.Message, error) { return d.q.m, nil }
func (d *queueDelivery) Redelivered() bool                  { return d.q.again }

func (d *queueDelivery) Ack(context.Context) error {
	d.sub.mu.Lock()
	defer d.sub.mu.Unlock()
	d.sub.acked = append(d.sub.acked, d.q.m.ID)
	d.settle()
	return nil
}

func (d *queueDelivery) Retry(_ context.Context, delay time.Duration) error {
	d.sub.mu.Lock()
	defer d.sub.mu.Unlock()
	d.settle()
	time.AfterFunc(delay, func() {
		d.sub.mu.Lock()
		defer d.sub.mu.Unlock()
		d.sub.ready = append(d.sub.ready, &queued{d.q.m, true})
		d.sub.signal()
	})
	return nil
}

func (d *queueDelivery) settle() {
	d.sub.unsettled--
	d.subscription.Add(-1)
	d.sub.signal()
}

func (d *queueDelivery) Extend(context.Context) error {
	d.sub.mu.Lock()
	defer d.sub.mu.Unlock()
	d.sub.extended++
	return nil
}

// orders returns n messages, each with a key of its own unless key is given.
func orders(prefix, key string, n int) []*waybill.Message {
	list := make([]*waybill.Message, n)
	for i := range list {
		id := fmt.Sprintf("%s%d", prefix, i)
		list[i] = &waybill.Message{ID: id, Topic: "orders", Source: "shop", Type: "placed", Key: cmp.Or(key, id)}
	}
	return list
}

// run runs c until the test ends, or what it returns is called, which waits for the end.
func run(t *testing.T, c interface{ Run(context.Context) error }) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// memBox is an inbox of many messages, that can be made to answer nothing.
type memBox struct {
	mu      sync.Mutex
	done    map[inbox.Key]bool
	past    map[inbox.Key]contract.Attempts
	letters []inbox.Letter
	silent  func(call string) bool
	held    func(id string) bool // by somebody else's transaction
}

func newBox() *memBox {
	return &memBox{done: make(map[inbox.Key]bool), past: make(map[inbox.Key]contract.Attempts)}
}

// answer waits for the end of ctx if the box is silent about a call.
func (b *memBox) answer(ctx context.Context, call string) error {
	b.mu.Lock()
	silent := b.silent != nil && b.silent(call)
	b.mu.Unlock()
	if silent {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (b *memBox) beSilent(about func(call string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = about
}

func (b *memBox) beHeld(held func(id string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = held
}

func (b *memBox) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx int) error) (inbox.Outcome, error) {
	if err := b.answer(ctx, "begin"); err != nil {
		return 0, err
	}
	b.mu.Lock()
	seen, held := b.done[rec.Key], b.held != nil && b.held(rec.MessageID)
	b.mu.Unlock()
	if held {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if seen {
		return inbox.Duplicate, nil
	}
	if err := fn(ctx, 0); err != nil {
		return 0, err
	}
	if err := b.answer(ctx, "commit"); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[rec.Key] = true
	delete(b.past, rec.Key)
	return inbox.Processed, nil
}

func (b *memBox) FailedAttempts(ctx context.Context, key inbox.Key) (contract.Attempts, error) {
	if err := b.answer(ctx, "attempts"); err != nil {
		return contract.Attempts{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.past[key], nil
}

func (b *memBox) SaveAttempt(ctx context.Context, key inbox.Key, a contract.FailedAttempt) error {
	if err := b.answer(ctx, "save"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past[key] = contract.Attempts{Count: a.Count, Error: a.Error}
	return nil
}

func (b *memBox) SaveStarts(ctx context.Context, _ inbox.Key, _ int) error {
	return b.answer(ctx, "starts")
}

func (b *memBox) BuryMessage(ctx context.Context, l inbox.Letter) (bool, error) {
	if err := b.answer(ctx, "bury"); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[l.Record.Key] = true
	b.letters = append(b.letters, l)
	return true, nil
}

func (b *memBox) TakeRequeued(ctx context.Context, _ string, _ time.Duration) (contract.Requeued, bool, error) {
	return contract.Requeued{}, false, b.answer(ctx, "take")
}

func (b *memBox) RunRequeued(context.Context, contract.Requeued, string, func(ctx context.Context, tx int) error) (bool, error) {
	return false, nil
}

func (b *memBox) dead() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.letters)
}
