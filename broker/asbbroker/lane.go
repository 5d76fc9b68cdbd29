package asbbroker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

// maxBatch is the most messages that are sent as one batch. Its size is bounded by the service.
const maxBatch = 500

// senderIdle is how long a lane that has nothing to send keeps its link to the service.
const senderIdle = 20 * time.Second

// lane sends to one topic or queue. It sends queued messages in batches, one after the other, so
// that they arrive in the order in which Send was called. A batch is accepted or refused as a
// whole. Its goroutine runs while there is something to send.
type lane struct {
	publisher *publisher
	entity    string

	mu      sync.Mutex
	queue   []*outgoing
	running bool
	users   int         // calls of forward
	idle    *time.Timer // ends the lane; nil while it has work

	linking sync.Mutex // held while sender and client change
	sender  *azservicebus.Sender
	client  *azservicebus.Client // that sender belongs to
}

// push queues a message.
func (l *lane) push(o *outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, o)
	l.busy()
	if !l.running {
		l.running = true
		l.publisher.broker.work.Go(l.run)
	}
}

// take returns the queued messages whose deadline has not passed, or nil: the lane stops running
// then.
func (l *lane) take() (items []*outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(items) == 0 {
		if len(l.queue) == 0 {
			l.running = false
			l.rest()
			return nil
		}
		n := min(maxBatch, len(l.queue))
		for _, o := range l.queue[:n] {
			if o.call.ctx.Err() != nil {
				o.finish(waybill.UnavailableError(context.Cause(o.call.ctx)))
			} else {
				items = append(items, o)
			}
		}
		l.queue = l.queue[n:]
	}
	return items
}

// busy keeps the idle lane from being closed. The lock is held.
func (l *lane) busy() {
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
}

// rest lets the lane be closed if nothing happens for a while. The lock is held.
func (l *lane) rest() {
	if !l.running && l.users == 0 {
		l.idle = time.AfterFunc(senderIdle, func() { l.publisher.retire(l) })
	}
}

// use counts calls of forward.
func (l *lane) use(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy()
	l.users += n
	l.rest()
}

// abort fails all queued messages.
func (l *lane) abort(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.queue {
		o.finish(err)
	}
	l.queue = nil
}

func (l *lane) run() {
	for items := l.take(); items != nil; items = l.take() {
		ctx, cancel := l.patience(items)
		l.sendAll(ctx, items)
		cancel()
	}
}

// patience returns a context that ends with the last of the calls that items are of: one that
// ends before does not wait, but what it has sent is sent.
func (l *lane) patience(items []*outgoing) (context.Context, context.CancelFunc) {
	last := brokerkit.Last(items, func(o *outgoing) context.Context { return o.call.ctx })
	if last.IsZero() {
		return context.WithTimeout(l.publisher.broker.ctx, l.publisher.broker.cfg.ConnectTimeout)
	}
	return context.WithDeadline(l.publisher.broker.ctx, last)
}

// sendAll sends items in as few batches as hold them. If the connection ends during one, later
// items are not sent: they would overtake those that were lost.
func (l *lane) sendAll(ctx context.Context, items []*outgoing) {
	for len(items) > 0 {
		sender, batch, err := l.newBatch(ctx)
		if err != nil {
			l.giveUp(items, l.publisher.broker.unsentError(err))
			return
		}
		n, err := fill(batch, items)
		switch {
		case err != nil:
			items[0].finish(l.publisher.broker.errorOf("publish", err))
			n = 1
		case n == 0: // too large for a batch; perhaps not alone
			n = 1
			err = sender.SendMessage(ctx, items[0].Message, nil)
		default:
			err = sender.SendMessageBatch(ctx, batch, nil)
		}
		if !l.settle(ctx, sender, items, n, err) {
			return
		}
		items = items[n:]
	}
}

// settle gives the first n items their results, and reports whether the lane may go on.
func (l *lane) settle(ctx context.Context, sender *azservicebus.Sender, items []*outgoing, n int, err error) bool {
	result := l.publisher.broker.errorOf("publish", err)
	switch {
	case waybill.IsUnavailable(result):
		l.failed(err)
		l.giveUp(items, result)
		return false
	case result != nil && n > 1: // one of them is the cause, or all: only sending each can tell
		return l.oneByOne(ctx, sender, items, n)
	case notFound(err):
		l.release()
	}
	for _, o := range items[:n] {
		o.finish(result)
	}
	return true
}

// oneByOne sends the first n items individually.
func (l *lane) oneByOne(ctx context.Context, sender *azservicebus.Sender, items []*outgoing, n int) bool {
	for i := range n {
		err := sender.SendMessage(ctx, items[i].Message, nil)
		if !l.settle(ctx, sender, items[i:], 1, err) {
			return false
		}
	}
	return true
}

// giveUp fails items and everything queued behind them.
func (l *lane) giveUp(items []*outgoing, err error) {
	for _, o := range items {
		o.finish(err)
	}
	l.abort(err)
}

// fill adds items to a batch until it is full, and returns how many. The error is about the
// first.
func fill(batch *azservicebus.MessageBatch, items []*outgoing) (n int, _ error) {
	for _, o := range items {
		err := batch.AddMessage(o.Message, nil)
		switch {
		case err == nil:
			n++
		case n > 0 || errors.Is(err, azservicebus.ErrMessageTooLarge):
			return n, nil
		default:
			return 0, err
		}
	}
	return n, nil
}

// newBatch attaches and returns an empty batch of the size that the service allows.
func (l *lane) newBatch(ctx context.Context) (*azservicebus.Sender, *azservicebus.MessageBatch, error) {
	sender, err := l.attach(ctx)
	if err != nil {
		return nil, nil, err
	}
	batch, err := sender.NewMessageBatch(ctx, nil)
	if err != nil {
		l.failed(err)
	}
	return sender, batch, err
}

// attach returns a sender whose link is open, as far as is known.
func (l *lane) attach(ctx context.Context) (*azservicebus.Sender, error) {
	l.linking.Lock()
	defer l.linking.Unlock()
	client, err := l.publisher.connected()
	if err != nil {
		return nil, err
	}
	if l.sender != nil && l.client == client {
		return l.sender, nil
	}
	sender, err := client.NewSender(l.entity, nil)
	if err != nil {
		return nil, err
	}
	if _, err := sender.NewMessageBatch(ctx, nil); err != nil {
		closeQuietly(sender)
		if lost(err) || isContext(err) {
			l.publisher.drop(client)
		}
		return nil, err
	}
	l.sender, l.client = sender, client
	return sender, nil
}

// failed drops the connection if err says that it ended, or that nobody answered on it.
func (l *lane) failed(err error) {
	l.linking.Lock()
	client := l.client
	l.linking.Unlock()
	if lost(err) || isContext(err) {
		l.publisher.drop(client)
	}
}

// release ends the sender.
func (l *lane) release() {
	l.linking.Lock()
	sender := l.sender
	l.sender, l.client = nil, nil
	l.linking.Unlock()
	if sender != nil {
		closeQuietly(sender)
	}
}
