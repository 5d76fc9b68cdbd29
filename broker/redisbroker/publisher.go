package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/results"
	"github.com/waybill-go/waybill/request"
)

const (
	// maxPipeline and maxPipelineBytes bound what is written before the answers are read.
	maxPipeline      = 1000
	maxPipelineBytes = 4 << 20

	// replicaTimeout is how long Redis waits for replicas. It is shorter than the client's read
	// timeout.
	replicaTimeout = 2 * time.Second
)

// publisher writes the messages of several calls of Send in one pipeline after the other, so that
// all of them stay in order; a pipeline takes everything that has accumulated meanwhile.
type publisher struct {
	broker *Broker

	mu      sync.Mutex
	queue   []*outgoing
	writing bool // a goroutine empties the queue
	lost    int  // batches whose connection ended, and whose senders have yet to learn of it
}

// batch collects the results of one Send.
type batch struct {
	*results.Set
	ctx  context.Context
	lost bool // the connection ended meanwhile; guarded by the lock of the publisher
}

func newBatch(ctx context.Context, n int) *batch { return &batch{Set: results.New(n), ctx: ctx} }

// wait returns the results when all are known or the batch's context is done.
func (b *batch) wait() []error {
	return b.Wait(b.ctx, func() error { return unconfirmed(b.ctx.Err()) })
}

// outgoing is one message that is to be written.
type outgoing struct {
	batch  *batch
	index  int
	stream string
	reply  bool // its stream may be gone, with the requester
	size   int
	cmd    redis.StringCmd
}

// Send encodes and checks all of msgs, then leaves those that passed to the writing goroutine.
func (p *publisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	b := newBatch(ctx, len(msgs))
	if err := p.broker.ready(ctx); err != nil {
		b.ResolveAll(err)
		return b.wait
	}
	list := make([]*outgoing, 0, len(msgs))
	for i, m := range msgs {
		if err := brokerkit.CheckPayload(m.Payload, p.broker.cfg.MaxPayload); err != nil {
			b.Resolve(i, err)
			continue
		}
		list = append(list, p.newOutgoing(b, i, m))
	}
	p.add(b, list)
	return func() []error {
		results := b.wait()
		p.learned(b)
		return results
	}
}

func (p *publisher) newOutgoing(b *batch, i int, m contract.Outgoing) *outgoing {
	o := &outgoing{batch: b, index: i, stream: streamOf(p.broker.cfg.Prefix, m.Topic, m.To), reply: request.IsAddress(m.To)}
	fields, size := encode(m.Message, m.Structured)
	o.size = size
	o.cmd = *redis.NewStringCmd(b.ctx, xadd(&o.stream, fields)...)
	return o
}

// xadd returns the arguments of a command that adds an entry. They are pointers where that saves an
// allocation per string.
func xadd(stream *string, fields []string) []any {
	args := append(make([]any, 0, 4+len(fields)), "xadd", stream, "nomkstream", "*")
	for i := range fields {
		args = append(args, &fields[i])
	}
	return args
}

// add hands a batch over, unless the sender of a lost one has yet to learn of that: this one could
// overtake earlier messages of its key over a new connection.
func (p *publisher) add(b *batch, list []*outgoing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost > 0 {
		b.ResolveAll(connectionLost())
		return
	}
	p.queue = append(p.queue, list...)
	if !p.writing && len(p.queue) > 0 {
		p.writing = true
		go p.write()
	}
}

// learned records that the sender of b has its results.
func (p *publisher) learned(b *batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.lost {
		b.lost = false
		p.lost--
	}
}

// write empties the queue.
func (p *publisher) write() {
	for {
		list := p.next()
		if len(list) == 0 {
			return
		}
		if err := p.publish(list); err != nil {
			p.fail(list, err)
		}
	}
}

// next takes up to one pipeline from the queue, without messages that nobody waits for any longer.
// It returns none, and the goroutine must end, when the queue is empty.
func (p *publisher) next() []*outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*outgoing
	taken, size := 0, 0
	for _, o := range p.queue {
		if len(list) == maxPipeline || len(list) > 0 && size+o.size > maxPipelineBytes {
			break
		}
		taken++
		if o.batch.ctx.Err() != nil {
			o.batch.Resolve(o.index, unconfirmed(o.batch.ctx.Err()))
		} else if o.batch.Pending(o.index) {
			list = append(list, o)
			size += o.size
		}
	}
	p.queue = p.queue[taken:]
	if len(list) == 0 {
		p.queue, p.writing = nil, false
	}
	return list
}

// publish writes list, one pipeline for each node, and resolves what Redis answers. The error says
// that the connection to Redis has failed.
func (p *publisher) publish(list []*outgoing) error {
	ctx, cancel := deadlineOf(list)
	defer cancel()
	for _, part := range p.broker.byNode(ctx, list) {
		if err := p.pipeline(ctx, part); err != nil {
			p.broker.lookAgain(ctx, err)
			return err
		}
	}
	return nil
}

// deadlineOf returns a context that ends with the last of the batches' own.
func deadlineOf(list []*outgoing) (context.Context, context.CancelFunc) {
	last := brokerkit.Last(list, func(o *outgoing) context.Context { return o.batch.ctx })
	if last.IsZero() {
		return context.WithCancel(context.Background())
	}
	return context.WithDeadline(context.Background(), last)
}

func (p *publisher) pipeline(ctx context.Context, n nodePart) error {
	if n.err != nil {
		return n.err
	}
	pipe := n.client.Pipeline()
	for _, o := range n.list {
		_ = pipe.Process(ctx, &o.cmd) // only queues it
	}
	var replicas *redis.Cmd
	if p.broker.cfg.Replicas > 0 {
		replicas = pipe.Do(ctx, "wait", p.broker.cfg.Replicas, replicaTimeout.Milliseconds())
	}
	_, failure := pipe.Exec(ctx)
	var copied error
	if replicas != nil {
		copied = p.enough(replicas)
	}
	var ended error
	for _, o := range n.list {
		err := o.cmd.Err()
		if err == nil && o.cmd.Val() == "" { // no connection was made; the commands do not report that
			err = failure
		}
		switch {
		case failed(err):
			ended = err
		case o.reply && errors.Is(err, redis.Nil):
			o.batch.Resolve(o.index, nil)
		case err != nil:
			p.broker.lookAgain(ctx, err)
			o.batch.Resolve(o.index, publishError(err))
		default:
			o.batch.Resolve(o.index, copied)
		}
	}
	return ended
}

// enough returns nil if enough replicas have what was written before WAIT.
func (p *publisher) enough(wait *redis.Cmd) error {
	switch n, err := wait.Int(); {
	case failed(err):
		return publishError(err)
	case err != nil:
		return classify("wait for replicas", err)
	case n < p.broker.cfg.Replicas:
		return waybill.UnavailableError(fmt.Errorf("redisbroker: %d replicas have the message, not %d", n, p.broker.cfg.Replicas))
	}
	return nil
}

// fail gives the error of a pipeline to the rest of it. If the connection ended, everything queued
// behind it fails too, so that nothing overtakes what was lost.
func (p *publisher) fail(list []*outgoing, err error) {
	result := publishError(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	list = append(list, p.queue...)
	p.queue = nil
	for _, o := range list {
		if !o.batch.lost && o.batch.Pending(o.index) {
			o.batch.lost = true
			p.lost++
		}
	}
	for _, o := range list {
		o.batch.Resolve(o.index, result)
	}
}
