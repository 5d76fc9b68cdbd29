package consumer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/report"
	"github.com/waybill-go/waybill/observe"
)

// BatchHandler handles many messages at once in the transaction tx, which also records all of
// them as processed. It is a [Handler] otherwise: nil commits; an error rolls everything back,
// and the messages are handled again in smaller batches, until the one that fails is in a batch of one, where
// the error's kind says what happens. HandlerTimeout applies to the whole batch.
type BatchHandler[Tx any] func(ctx context.Context, tx Tx, msgs []*waybill.Message) error

// one handles a message by itself.
func (h BatchHandler[Tx]) one(ctx context.Context, tx Tx, m *waybill.Message) error {
	return h(ctx, tx, []*waybill.Message{m})
}

const (
	maxBatchSize     = contract.MaxBatch
	defaultBatchSize = 100 // of NewBatch
)

// NewBatch is like [New], for a handler of many messages at once. h receives at most cfg.BatchSize
// messages, here 100 by default, in the order in which they came. box must
// be a [contract.Batcher].
func NewBatch[Tx any](b Broker, s Subscription, box contract.Inbox[Tx], h BatchHandler[Tx], cfg Config) (*Consumer[Tx], error) {
	var one Handler[Tx]
	if h != nil {
		one = h.one
	}
	fill(&cfg.BatchSize, defaultBatchSize)
	c, err := New(b, s, box, one, cfg)
	if err != nil {
		return nil, err
	}
	c.batchHandler = h
	return c, nil
}

// batcherOf returns what batches are processed with; nil if there are none.
func batcherOf[Tx any](box contract.Inbox[Tx], cfg *Config) (contract.Batcher[Tx], error) {
	if cfg.BatchSize <= 1 {
		return nil, nil
	}
	b, ok := box.(contract.Batcher[Tx])
	if !ok {
		return nil, invalid("BatchSize", "is %d, and the inbox is no contract.Batcher", cfg.BatchSize)
	}
	return b, nil
}

// lineUp begins to handle batches until ctx ends, and returns what takes deliveries for them.
func (c *Consumer[Tx]) lineUp(ctx, work context.Context) (take func(*held)) {
	c.waiting.open(ctx)
	c.queues.spawn(func() { c.runBatches(ctx, work) })
	return func(d *held) {
		key, ok := c.orderKey(d)
		if ok {
			d.key = key
			c.stalls.change(key, 1)
		}
		if !c.waiting.add(key, d) {
			c.drop(work, []*held{d})
		}
	}
}

// runBatches handles what waits in the lines until ctx is done. When a handler is free, a batch
// takes the deliveries that are there, even if that is only one; it never waits for more.
func (c *Consumer[Tx]) runBatches(ctx, work context.Context) {
	for c.waiting.wait(ctx) && c.acquire(ctx) {
		groups := c.waiting.take(c.cfg.BatchSize)
		switch {
		case len(groups) == 0:
			c.releaseHandler()
		case len(groups) == 1 && len(groups[0].list) == 1:
			c.queues.spawn(func() { c.handleOne(ctx, work, groups[0]) })
		default:
			c.queues.spawn(func() {
				defer c.releaseHandler()
				c.handleBatch(work, groups)
				c.finish(work, groups)
			})
		}
	}
	c.periods.RLock()
	defer c.periods.RUnlock()
	c.drop(work, c.waiting.close(ctx))
}

// finish frees the lines of groups; it returns what is left in them to the broker if nothing more is started.
func (c *Consumer[Tx]) finish(work context.Context, groups []group) {
	c.periods.RLock()
	defer c.periods.RUnlock()
	c.drop(work, c.waiting.finish(groups))
}

// handleOne handles a single delivery as without batches. The caller holds a handler slot, which is
// released.
func (c *Consumer[Tx]) handleOne(ctx, work context.Context, g group) {
	if g.line.key == "" {
		c.handle(ctx, work, g.list[0])
		c.releaseHandler()
	} else {
		c.releaseHandler()
		behind := func() []*held { return c.waiting.leave(g.line) }
		c.handleInOrder(work, g.list[0], behind) // it takes a slot for each attempt
	}
	c.finish(work, []group{{line: g.line}})
}

// member is a delivery of a batch.
type member struct {
	*held
	m    *waybill.Message
	rec  inbox.Record
	took time.Duration // by its handler
}

// handleBatch handles deliveries in one transaction and acknowledges them after the commit.
// What could not be handled this way is left in the groups.
func (c *Consumer[Tx]) handleBatch(work context.Context, groups []group) {
	members := c.members(groups)
	recs := make([]inbox.Record, len(members))
	for i := range members {
		recs[i] = members[i].rec
	}
	outcomes, err := c.processBatch(work, recs, func(ctx context.Context, tx Tx, fresh []int) error {
		return c.callAll(ctx, tx, members, fresh)
	})
	if err != nil {
		c.observe(work, observe.Event{Op: observe.OpRepeat, Count: 1, Attempt: 1, Err: err})
		shrink(members, err)
		return
	}
	settled := make(map[*held]bool, len(members))
	for i := range members {
		members[i].most = 1 // if there is still something to do
		settled[members[i].held] = c.settleMember(work, &members[i], outcomes[i])
	}
	for i := range groups {
		groups[i].list = slices.DeleteFunc(groups[i].list, func(d *held) bool { return settled[d] })
	}
}

// shrink lets the members of a failed batch be handled again in batches half as large, without the one that is
// known to have failed. So a failing message is found in a few steps, also with a handler of whole batches, and
// the others still share transactions. After an outage or a timeout, which another batch would meet again, each
// is handled by itself at once.
func shrink(members []member, err error) {
	most := max(1, len(members)/2)
	if waybill.KindOf(err) == waybill.Unavailable || errors.Is(err, context.DeadlineExceeded) {
		most = 1
	}
	for i := range members {
		members[i].most = min(members[i].most, most)
	}
}

// members returns the deliveries that fit into one batch: those that can be recorded, and of
// several copies of a message the first. The others are handled by themselves.
func (c *Consumer[Tx]) members(groups []group) []member {
	members := make([]member, 0, c.cfg.BatchSize)
	taken := make(map[inbox.Key]bool, c.cfg.BatchSize)
	for _, g := range groups {
		for _, d := range g.list {
			m, err := d.Message()
			if err != nil || c.identify(m) != nil {
				d.most = 1
				continue
			}
			rec := inbox.RecordOf(c.name, m)
			if taken[rec.Key] {
				d.most = 1
				continue
			}
			taken[rec.Key] = true
			members = append(members, member{held: d, m: m, rec: rec})
		}
	}
	return members
}

// callAll runs the handler for the members at the given places, up to the first error.
func (c *Consumer[Tx]) callAll(ctx context.Context, tx Tx, members []member, places []int) error {
	if c.batchHandler != nil {
		return c.callBatch(ctx, tx, members, places)
	}
	for _, i := range places {
		began := time.Now()
		if err := c.callOne(ctx, tx, members[i].m); err != nil {
			members[i].most = 1
			return err
		}
		members[i].took = time.Since(began)
	}
	return nil
}

// callBatch runs the handler of batches; a panic and runtime.Goexit become errors. The time is divided
// evenly among the messages.
func (c *Consumer[Tx]) callBatch(ctx context.Context, tx Tx, members []member, places []int) error {
	msgs := make([]*waybill.Message, len(places))
	for n, i := range places {
		msgs[n] = members[i].m
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandlerTimeout)
	defer cancel()
	ctx, end := c.cfg.Observer.Start(observe.WithName(ctx, c.name), observe.OpHandle, msgs...)
	began := time.Now()
	err := judged(ctx, loop.Isolate(func() error { return c.batchHandler(ctx, tx, msgs) }))
	end(err)
	for _, i := range places {
		members[i].took = time.Since(began) / time.Duration(len(places))
	}
	return err
}

// settleMember acknowledges a delivery whose batch has committed. It returns false if the delivery
// is not finished.
func (c *Consumer[Tx]) settleMember(work context.Context, d *member, outcome inbox.Outcome) bool {
	if outcome == inbox.Processed {
		c.judge(d.m, outcome, nil)
		c.observe(work, observe.Event{Op: observe.OpHandle, Topic: d.m.Address(), Type: d.m.Type, IDs: []string{d.m.ID}, Count: 1, Duration: d.took, Age: report.Age(d.m)})
	}
	if outcome == inbox.Conflict || c.succeeded(work, d.rec, d.m, outcome, nil).again {
		return false // handled by itself
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(work), settleTimeout)
	defer cancel()
	c.reportSettle(work, d.Ack(settle))
	c.leaveKey(d.held)
	c.held.remove(d.held)
	return true
}
