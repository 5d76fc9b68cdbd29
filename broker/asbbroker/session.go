package asbbroker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	// maxSessions is how many sessions of one entity a subscription holds at once.
	maxSessions = 8

	// sessionIdle is how long a session without messages is held.
	sessionIdle = time.Second
)

// sessionFeed receives from an entity with sessions: from several concurrently, each in its
// order.
type sessionFeed struct {
	pool

	mu   sync.Mutex
	held []*held
}

var _ feed = (*sessionFeed)(nil)

func newSessionFeed(p pool) *sessionFeed { return &sessionFeed{pool: p} }

// loop implements [feed].
func (f *sessionFeed) loop(ctx context.Context) {
	var workers sync.WaitGroup
	for range min(maxSessions, cap(f.quota)) {
		workers.Go(func() { f.work(ctx) })
	}
	workers.Wait()
}

// work receives from sessions one after the other.
func (f *sessionFeed) work(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		h, err := f.accept(ctx)
		if err == nil {
			err = h.receive(ctx)
			h.retire()
		}
		switch {
		case err == nil:
			failures = 0
			continue
		case ctx.Err() != nil:
			return
		case codeOf(err) == azservicebus.CodeTimeout: // no session has messages
			continue
		}
		f.repair(ctx, err)
		failures++
		loop.Sleep(ctx, backoff.Delay(reconnect, failures))
	}
}

// accept waits for a session that has messages and that nobody holds.
func (f *sessionFeed) accept(ctx context.Context) (*held, error) {
	client := f.run.broker.consumers
	var (
		r   *azservicebus.SessionReceiver
		err error
	)
	if f.address.sub == "" {
		r, err = client.AcceptNextSessionForQueue(ctx, f.address.queue, nil)
	} else {
		r, err = client.AcceptNextSessionForSubscription(ctx, f.address.queue, f.address.sub, nil)
	}
	if err != nil {
		return nil, err
	}
	h := &held{feed: f, receiver: r}
	f.mu.Lock()
	f.held = append(f.held, h)
	f.mu.Unlock()
	return h, nil
}

// tend implements [feed] by renewing the locks of all sessions.
func (f *sessionFeed) tend(ctx context.Context) {
	f.mu.Lock()
	sessions := slices.Clone(f.held)
	f.mu.Unlock()
	for _, h := range sessions {
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		_ = h.renew(ctx) // the next receive or settlement says so
		cancel()
	}
}

// close implements [feed]. Sessions end with the last settlement of what they have delivered.
func (f *sessionFeed) close() {}

// held is one session that is locked for this receiver.
type held struct {
	feed     *sessionFeed
	receiver *azservicebus.SessionReceiver

	renewing sync.Mutex // the client library does not expect concurrent renewals

	mu      sync.Mutex
	open    int // deliveries that are not settled
	retired bool
}

// receive queues messages until the session has no more and all are settled, or ctx ends.
func (h *held) receive(ctx context.Context) error {
	for h.feed.reserve(ctx, 1) > 0 {
		waiting, cancel := context.WithTimeout(ctx, sessionIdle)
		messages, err := h.receiver.ReceiveMessages(waiting, 1, nil)
		idle := waiting.Err() != nil
		cancel()
		h.feed.release(1 - len(messages))
		for _, m := range messages {
			h.count(1)
			h.feed.run.push(&delivery{run: h.feed.run, from: h, raw: m, address: h.feed.address})
		}
		switch {
		case len(messages) > 0:
		case !idle:
			return err // nil if the link was lost: the session is accepted again
		case h.unsettled() == 0:
			return nil
		}
	}
	return nil
}

func (h *held) unsettled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// count records that n more deliveries are unsettled, and ends a retired session with the last.
func (h *held) count(n int) {
	h.mu.Lock()
	h.open += n
	over := h.retired && h.open == 0
	h.mu.Unlock()
	if over {
		h.end()
	}
}

// retire ends the session, or leaves that to the last settlement.
func (h *held) retire() {
	h.mu.Lock()
	h.retired = true
	over := h.open == 0
	h.mu.Unlock()
	if over {
		h.end()
	}
}

func (h *held) end() {
	h.feed.mu.Lock()
	h.feed.held = slices.DeleteFunc(h.feed.held, func(other *held) bool { return other == h })
	h.feed.mu.Unlock()
	closeQuietly(h.receiver)
}

func (h *held) renew(ctx context.Context) error {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	return h.receiver.RenewSessionLock(ctx, nil)
}

// settle implements [origin].
func (h *held) settle(ctx context.Context, d *delivery, how outcome) error {
	switch how {
	case complete:
		return h.receiver.CompleteMessage(ctx, d.raw, nil)
	case abandon:
		return h.receiver.AbandonMessage(ctx, d.raw, nil)
	}
	return h.renew(ctx)
}

// settled implements [origin].
func (h *held) settled() {
	h.feed.release(1)
	h.count(-1)
}
