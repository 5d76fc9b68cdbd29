package rabbitbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var (
	_ contract.Publisher     = (*publisher)(nil)
	_ contract.LateConfirmer = (*publisher)(nil)
)

// publisher owns the connection that is published on, with one channel for messages, so that they arrive in the order
// in which they were written, and one for declaring retry queues, because a refused declaration closes its channel.
// Both are opened when needed and reopened after they were lost. (Measured: more channels for messages gain nothing.)
type publisher struct {
	link
	messages *channel  // used by whoever has the link's turn
	declares *declarer // likewise
	patience *patience
	renewed  time.Time // when messages replaced one on which the server had refused something; likewise
}

func newPublisher(b *Broker) *publisher {
	return &publisher{link: newLink(b, "waybill publisher"), patience: newPatience(b.cfg.ConnectTimeout)}
}

// ConfirmsLate implements [contract.LateConfirmer]: heartbeats detect a lost connection.
func (*publisher) ConfirmsLate() bool { return true }

// Send implements [contract.Publisher].
func (p *publisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	b := newBatch(len(msgs))
	for i := range msgs {
		m := msgs[i].Message
		if err := check(m, p.broker.cfg.MaxPayload); err != nil {
			b.results[i] = err
			continue
		}
		item := encode(m, msgs[i].Structured)
		if err := brokerkit.CheckPayload(item.Body, p.broker.cfg.MaxPayload); err != nil {
			b.results[i] = err
			continue
		}
		exchange, key := p.broker.topology.address(m)
		b.items[i] = &publishing{exchange: exchange, key: key, Publishing: item}
	}
	p.write(ctx, b)
	return func() []error { return b.wait(ctx) }
}

// batch is a set of messages that are published together.
type batch struct {
	items   []*publishing // nil where the result is known before anything was written
	flights []*flight     // nil where nothing was written
	results []error
	channel *channel
	began   time.Time
}

func newBatch(n int) *batch {
	return &batch{items: make([]*publishing, n), flights: make([]*flight, n), results: make([]error, n), began: time.Now()}
}

// fail gives err to the messages, from the given one on, that were not refused.
func (b *batch) fail(from int, err error) {
	for i := from; i < len(b.items); i++ {
		if b.items[i] != nil {
			b.results[i] = err
		}
	}
}

// write writes the items of b in order. What it cannot write gets its result.
func (p *publisher) write(ctx context.Context, b *batch) {
	if err := p.take(ctx); err != nil {
		b.fail(0, err)
		return
	}
	defer p.release()
	ch, err := p.channel(ctx)
	if err != nil {
		b.fail(0, err)
		return
	}
	b.channel = ch
	defer ch.conn.wire.limit(ctx)()
	ch.conn.wire.cork()
	from, err := b.publish(ctx)
	if e := ch.conn.wire.uncork(); err == nil {
		err = e
	}
	if err == nil {
		return
	}
	if ctx.Err() != nil { // writing took too long, and no message is the cause
		ch.conn.giveUp(context.Cause(ctx))
	}
	b.fail(from, ch.conn.lost(err))
	p.drop()
}

// publish writes the items of b until the connection fails, and returns which to continue with.
func (b *batch) publish(ctx context.Context) (from int, _ error) {
	for i, item := range b.items {
		if item == nil {
			continue
		}
		if ctx.Err() != nil {
			b.fail(i, waybill.UnavailableError(fmt.Errorf("publish: %w", context.Cause(ctx))))
			break
		}
		var err error
		if b.flights[i], err = b.channel.publish(item); waybill.IsPermanent(err) {
			b.results[i] = err
		} else if err != nil {
			return i, err
		}
	}
	return len(b.items), nil
}

// wait returns the results of b once all are known, or ctx has ended. While it waits it checks whether the server
// answers at all.
func (b *batch) wait(ctx context.Context) []error {
	if b.channel == nil {
		return b.results
	}
	patience := b.channel.patience
	look := time.NewTicker(patience.look())
	defer look.Stop()
	answered := 0
	for _, f := range b.flights {
		for waiting := f != nil; waiting; {
			select {
			case <-f.confirm.Done():
				waiting = false
			case <-ctx.Done():
				waiting = false
			case <-look.C:
				before := answered
				answered = b.answered()
				b.channel.heard(answered > before, true)
			}
		}
	}
	if ctx.Err() == nil && b.channel.usable() {
		patience.answered(time.Since(b.began))
	}
	b.channel.results(ctx, b.flights, b.results)
	return b.results
}

// answered returns how many of b have a confirm.
func (b *batch) answered() (n int) {
	for _, f := range b.flights {
		if f != nil && f.answered() {
			n++
		}
	}
	return n
}

// channel returns the channel for messages. The caller must have its turn.
func (p *publisher) channel(ctx context.Context) (*channel, error) {
	c, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	if p.messages != nil && p.messages.usable() && !p.renew(ctx) {
		return p.messages, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.broker.cfg.ConnectTimeout)
	defer cancel()
	if p.messages, err = openChannel(ctx, c, p.patience, p.broker.parts(p.broker.topology.publishing())); err != nil {
		p.drop()
		return nil, waybill.UnavailableError(fmt.Errorf("prepare to publish at %s: %w", p.broker.address, err))
	}
	return p.messages, nil
}

const (
	renewPause = 5 * time.Second // how long a channel is kept on which the server refuses messages
	renewDrain = time.Second     // how long messages in flight on it may take to be answered, and then its closing
)

// renew reports whether it has ended the channel for messages, because the server has refused some on it. Most often a
// queue is full, but a channel that knew no leader of a quorum queue may keep refusing its messages when there is one.
// Messages of a key must not overtake each other on another channel: those in flight are answered first.
func (p *publisher) renew(ctx context.Context) bool {
	if !p.messages.refuses() || time.Since(p.renewed) < renewPause {
		return false
	}
	p.renewed = time.Now()
	drain, cancel := context.WithTimeout(ctx, renewDrain)
	defer cancel()
	if !p.messages.drain(drain) {
		return false
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDrain) // ctx must not cut the connection
	defer cancel()
	_ = p.messages.conn.within(end, p.messages.Close) // it is closed, whatever the error
	return true
}

var errBlocked = errors.New("RabbitMQ takes no messages: memory or disk alarm")

// connected returns a connection that takes messages. The caller must have its turn.
func (p *publisher) connected(ctx context.Context) (*conn, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	if c.blocked.Load() {
		return nil, waybill.UnavailableError(errBlocked)
	}
	return c, nil
}

// publishOne publishes a message and waits for the result.
func (p *publisher) publishOne(ctx context.Context, item *publishing) error {
	b := newBatch(1)
	b.items[0] = item
	p.write(ctx, b)
	return b.wait(ctx)[0]
}

// declare runs a declaration. It returns when ctx ends, though the answer may be awaited for longer: abandoning it
// costs the connection, and what others have in flight on it.
func (p *publisher) declare(ctx context.Context, declaration func(*declarer) error) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	c, err := p.connected(ctx)
	if err != nil {
		p.release()
		return err
	}
	answer := make(chan error, 1)
	go func() {
		defer p.release()
		answer <- c.call(func() error { return p.declareNow(c, declaration) })
	}()
	select {
	case err := <-answer:
		return waybill.UnavailableError(err)
	case <-ctx.Done():
		return waybill.UnavailableError(context.Cause(ctx))
	}
}

func (p *publisher) declareNow(c *conn, declaration func(*declarer) error) error {
	if p.declares == nil || p.declares.conn != c {
		p.declares = &declarer{conn: c}
	}
	return declaration(p.declares)
}
