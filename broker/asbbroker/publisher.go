package asbbroker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/results"
	"github.com/waybill-go/waybill/request"
)

var (
	_ contract.Publisher    = (*publisher)(nil)
	_ contract.Deduplicator = (*publisher)(nil)
)

// publisher owns the connection that is published on, which is established when it is needed and
// re-established after it was lost, and a lane for each topic and queue.
type publisher struct {
	broker *Broker

	mu     sync.Mutex
	client *azservicebus.Client // nil after a loss
	lanes  map[string]*lane
}

func newPublisher(b *Broker) *publisher {
	return &publisher{broker: b, lanes: make(map[string]*lane)}
}

// DedupWindow implements [contract.Deduplicator].
func (p *publisher) DedupWindow() time.Duration { return p.broker.cfg.DuplicateWindow }

// call is one Send, and the results of it.
type call struct {
	*results.Set
	ctx context.Context
}

// outgoing is one message of a call that is in flight.
type outgoing struct {
	*azservicebus.Message
	call  *call
	index int
	reply bool // it goes to a reply queue
}

// finish gives the message its result. A reply whose queue does not exist is dropped: the
// requester is gone.
func (o *outgoing) finish(err error) {
	if o.reply && waybill.ReasonOf(err) == waybill.ReasonUnroutable {
		err = nil
	}
	o.call.Resolve(o.index, err)
}

// Send implements [contract.Publisher].
func (p *publisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	c := &call{results.New(len(msgs)), ctx}
	entities := make([]string, len(msgs))
	ready := make([]*outgoing, len(msgs))
	for i := range msgs {
		entity, err := p.broker.names.of(msgs[i].Message)
		if err == nil {
			err = check(msgs[i].Message, p.broker.cfg.MaxPayload)
		}
		o := &outgoing{call: c, index: i, reply: request.IsAddress(msgs[i].To)}
		if err != nil {
			o.finish(err)
			continue
		}
		o.Message = encode(msgs[i], p.broker.cfg.Sessions)
		entities[i], ready[i] = entity, o
	}
	p.queue(entities, ready)
	return func() []error { return c.wait(p.broker) }
}

// queue appends messages, except nil ones, to their lanes.
func (p *publisher) queue(entities []string, ready []*outgoing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range ready {
		switch {
		case o == nil:
		case p.broker.closed():
			o.finish(waybill.UnavailableError(errClosed))
		default:
			p.lane(entities[i]).push(o)
		}
	}
}

// lane returns the lane of an entity. The lock is held.
func (p *publisher) lane(entity string) *lane {
	l := p.lanes[entity]
	if l == nil {
		l = &lane{publisher: p, entity: entity}
		p.lanes[entity] = l
	}
	return l
}

// wait returns the results once all are known, or ctx has ended.
func (c *call) wait(b *Broker) []error {
	return c.Wait(c.ctx, func() error {
		return waybill.UnavailableError(fmt.Errorf("publish at %s: not confirmed in time: %w", b.host, context.Cause(c.ctx)))
	})
}

// connected returns the connection, a new one after a loss.
func (p *publisher) connected() (*azservicebus.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broker.closed() {
		return nil, errClosed
	}
	if p.client == nil {
		client, err := p.broker.newClient(noRetries)
		if err != nil {
			return nil, err
		}
		p.client = client
	}
	return p.client, nil
}

// drop drops a connection, unless that was done already.
func (p *publisher) drop(client *azservicebus.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if client == nil || p.client != client || p.broker.closed() {
		return
	}
	p.client = nil
	p.broker.work.Go(func() { closeQuietly(client) })
}

// probe attaches to an entity and returns the result.
func (p *publisher) probe(ctx context.Context, entity string) error {
	ctx, cancel := p.broker.within(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return waybill.UnavailableError(context.Cause(ctx))
	}
	l := &lane{publisher: p, entity: entity}
	defer l.release()
	_, err := l.attach(ctx)
	return p.broker.errorOf("connect", err)
}

// forward sends one message of another receiver to a queue, and waits for the confirmation.
func (p *publisher) forward(ctx context.Context, entity string, m *azservicebus.AMQPAnnotatedMessage) error {
	ctx, cancel := p.broker.within(ctx)
	defer cancel()
	p.mu.Lock()
	l := p.lane(entity)
	l.use(1)
	p.mu.Unlock()
	defer l.use(-1)
	sender, err := l.attach(ctx)
	if err == nil {
		err = sender.SendAMQPAnnotatedMessage(ctx, m, nil)
	}
	if err != nil {
		l.failed(err)
	}
	return err
}

// retire ends a lane that has had nothing to send for a while.
func (p *publisher) retire(l *lane) {
	p.mu.Lock()
	l.mu.Lock()
	idle := l.idle != nil && !p.broker.closed()
	if idle {
		delete(p.lanes, l.entity)
	}
	l.mu.Unlock()
	p.mu.Unlock()
	if idle {
		l.release()
	}
}

// close ends the connection and waits for the lanes. The broker's context has ended.
func (p *publisher) close() {
	p.mu.Lock()
	client := p.client
	p.client = nil
	p.mu.Unlock()
	if client != nil {
		closeQuietly(client)
	}
}
