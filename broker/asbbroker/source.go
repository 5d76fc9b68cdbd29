package asbbroker

import (
	"context"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
)

// address is what is received from: a queue, or a subscription to a topic.
type address struct {
	queue string // or the topic
	sub   string // "" for a queue

	topic, to string // what its messages were published or sent to; both "" if they say so themselves
}

// addresses returns what the group of sub receives from, apart from its retry queue.
func (n names) addresses(sub consumer.Subscription) (list []address) {
	group := subscriptionName(sub.Group)
	for _, topic := range sub.Topics {
		list = append(list, address{queue: n.topic(topic), sub: group, topic: topic})
	}
	if sub.To != "" {
		list = append(list, address{queue: n.queue(sub.To), to: sub.To})
	}
	return list
}

func (a address) String() string {
	if a.sub == "" {
		return a.queue
	}
	return a.queue + "/" + a.sub
}

// receiver returns a receiver, which connects when it is first used.
func (a address) receiver(client *azservicebus.Client) (*azservicebus.Receiver, error) {
	if a.sub == "" {
		return client.NewReceiverForQueue(a.queue, nil)
	}
	return client.NewReceiverForSubscription(a.queue, a.sub, nil)
}

// pool is what the kinds of feeds have in common: how many messages one may hold.
type pool struct {
	run     *run
	address address
	quota   chan struct{} // one value for each message that is held or asked for
}

// reserve waits until a message may be held, and returns how many may, up to limit; 0 if ctx has
// ended.
func (p *pool) reserve(ctx context.Context, limit int) (n int) {
	select {
	case p.quota <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < limit; n++ {
		select {
		case p.quota <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

func (p *pool) release(n int) {
	for range n {
		<-p.quota
	}
}

// repair handles what made receiving fail: an entity that was removed is created again. It ends
// the run if waiting will not help, and if the service does not answer at first.
func (p *pool) repair(ctx context.Context, err error) {
	b := p.run.broker
	switch {
	case ctx.Err() != nil:
	case lost(err) && p.run.begins():
		p.run.queue.Fail(b.errorOf("receive", err))
	case !notFound(err):
	case !b.declares(p.run.sub):
		p.run.queue.Fail(b.errorOf("receive", err))
	default:
		if err := b.ensure(ctx, p.run.sub); waybill.IsPermanent(err) {
			p.run.queue.Fail(err)
		}
	}
}

// source receives from a queue or a subscription without sessions.
type source struct {
	pool

	mu       sync.Mutex
	receiver *azservicebus.Receiver // nil until it is needed, after a failure, and in the end
	aside    *azservicebus.Receiver // settles messages of another link, and receives nothing; nil until it is needed
	over     bool                   // close was called
}

var _ feed = (*source)(nil)

// loop implements [feed]. It ends with its link: messages that are released afterwards would
// arrive over it again.
func (s *source) loop(ctx context.Context) {
	defer s.replace()
	for failures := 0; ; {
		n := s.reserve(ctx, s.run.broker.cfg.ReceiveBatch)
		if n == 0 {
			return
		}
		got, err := s.receive(ctx, n)
		if ctx.Err() != nil {
			got += s.collect(n - got)
		}
		s.release(n - got)
		switch {
		case ctx.Err() != nil:
			return
		case got > 0:
			failures = 0
			continue
		}
		s.repair(ctx, err)
		s.replace()
		failures++
		loop.Sleep(ctx, backoff.Delay(reconnect, failures))
	}
}

// receive waits for messages and queues them. If there are none, there is an error, or the link
// was lost.
func (s *source) receive(ctx context.Context, n int) (got int, err error) {
	r, err := s.current()
	if err != nil {
		return 0, err
	}
	messages, err := r.ReceiveMessages(ctx, n, nil)
	for _, m := range messages {
		s.run.push(&delivery{run: s.run, from: s, receiver: r, raw: m, address: s.address})
	}
	return len(messages), err
}

// collectPatience is how long to wait for messages that were requested before the feed was
// stopped. One that arrives later is redelivered when its lock expires.
const collectPatience = 200 * time.Millisecond

// collect queues those of the last n requested messages that are in flight.
func (s *source) collect(n int) (got int) {
	ctx, cancel := context.WithTimeout(context.Background(), collectPatience)
	defer cancel()
	for got < n {
		more, err := s.receive(ctx, n-got)
		got += more
		if more == 0 || err != nil {
			break
		}
	}
	return got
}

func (s *source) current() (_ *azservicebus.Receiver, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver == nil {
		s.receiver, err = s.address.receiver(s.run.broker.consumers)
	}
	return s.receiver, err
}

// replace drops the receiver.
func (s *source) replace() {
	s.mu.Lock()
	old := s.receiver
	s.receiver = nil
	s.mu.Unlock()
	if old != nil {
		closeQuietly(old)
	}
}

// tend implements [feed].
func (s *source) tend(context.Context) {}

// close implements [feed]. Unsettled messages are settled over a separate receiver.
func (s *source) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.finish()
}

// finish closes the separate receiver, once nothing can need it.
func (s *source) finish() {
	s.mu.Lock()
	var old *azservicebus.Receiver
	if s.over && len(s.quota) == 0 {
		old, s.aside = s.aside, nil
	}
	s.mu.Unlock()
	if old != nil {
		closeQuietly(old)
	}
}

// settlePatience is how long the link that a message came over may take to settle it: on a dead
// one nobody answers.
const settlePatience = 2 * time.Second

// settle implements [origin]. If the link that d came over does not settle it, it is settled by
// its lock token over another, which works for as long as the lock holds.
func (s *source) settle(ctx context.Context, d *delivery, how outcome) error {
	s.mu.Lock()
	r := s.receiver
	s.mu.Unlock()
	if r != nil && r == d.receiver {
		patient, cancel := context.WithTimeout(ctx, settlePatience)
		err := tell(patient, r, d.raw, how)
		cancel()
		if ctx.Err() != nil || !lost(err) && !isContext(err) {
			return err
		}
	}
	r, err := s.settler()
	if err != nil {
		return err
	}
	return tell(ctx, r, &azservicebus.ReceivedMessage{LockToken: d.raw.LockToken}, how)
}

func (s *source) settler() (_ *azservicebus.Receiver, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside == nil {
		s.aside, err = s.address.receiver(s.run.broker.consumers)
	}
	return s.aside, err
}

func tell(ctx context.Context, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, how outcome) error {
	switch how {
	case complete:
		return r.CompleteMessage(ctx, m, nil)
	case abandon:
		return r.AbandonMessage(ctx, m, nil)
	}
	return r.RenewMessageLock(ctx, m, nil)
}

// settled implements [origin].
func (s *source) settled() {
	s.release(1)
	s.finish()
}
