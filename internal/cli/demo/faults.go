package demo

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/service"
)

// quiet hides failures that are part of the demo.
var quiet = observe.LogTo(slog.New(slog.DiscardHandler))

// faulty is a broker with a publisher that sends every tenth message twice, and then kills
// its own process at the worst moment.
type faulty struct {
	Broker
	dieAfter int
}

// Publisher implements service.Broker.
func (f faulty) Publisher() contract.Publisher {
	return &mortal{twice{f.Broker.Publisher()}, killSelfAfter(f.dieAfter)}
}

// twice publishes every tenth order a second time, under another deduplication id, so that the
// broker treats it as another message. For the inbox it is the same one.
type twice struct{ contract.Publisher }

// Send implements relay.Publisher.
func (t twice) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	all := append([]contract.Outgoing{}, msgs...)
	for _, m := range msgs {
		if number, err := strconv.Atoi(m.Subject); err == nil && number%twiceEvery == 0 {
			all = append(all, contract.Outgoing{Message: m.Message, DedupID: m.DedupID + "#twice", Resent: true})
		}
	}
	results := t.Publisher.Send(ctx, all)
	return func() []error { return results()[:len(msgs)] }
}

// mortal kills its process when the broker has confirmed and the relay does not know yet.
type mortal struct {
	contract.Publisher
	confirmed func()
}

// Send implements relay.Publisher.
func (m *mortal) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	results := m.Publisher.Send(ctx, msgs)
	return func() []error {
		errs := results()
		for _, err := range errs {
			if err == nil {
				m.confirmed()
			}
		}
		return errs
	}
}

// killSelfAfter returns a function that, called for the n-th time, kills the process that it is
// called in, as an operator, a crash or the kernel would: nothing is closed, finished or
// recorded. With n 0 it does nothing.
func killSelfAfter(n int) func() {
	var calls atomic.Int64
	return func() {
		if n == 0 || calls.Add(1) < int64(n) {
			return
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Kill() == nil {
			select {} // until the signal arrives
		}
	}
}

// handlerFaults makes one handler fail for some orders.
type handlerFaults struct {
	mu     sync.Mutex
	failed map[int]int // attempts, by the number of the order
}

func newHandlerFaults() *handlerFaults { return &handlerFaults{failed: make(map[int]int)} }

var errHandler = errors.New("the demo lets this attempt fail")

// of returns an error for the first attempts at every fiftieth order.
func (f *handlerFaults) of(o Order) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Number%failEvery != 0 || f.failed[o.Number] == failAttempts {
		return nil
	}
	f.failed[o.Number]++
	return errHandler
}

// withoutInbox runs handlers in a transaction, as before, but does not filter duplicates.
type withoutInbox struct{ service.Store[*sql.Tx] }

// ProcessOnce implements contract.Inbox, wrongly.
func (s withoutInbox) ProcessOnce(ctx context.Context, _ inbox.Record, fn func(ctx context.Context, tx *sql.Tx) error) (inbox.Outcome, error) {
	_, err := s.Transact(ctx, func(ctx context.Context, tx *sql.Tx) (outbox.Batch, error) {
		return outbox.Batch{}, fn(ctx, tx)
	})
	return inbox.Processed, err
}
