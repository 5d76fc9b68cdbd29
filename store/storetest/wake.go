package storetest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
)

func wakeTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"by a commit of the store", wakeByTransact[Tx], nil},
		{"by a signal", wakeBySignal[Tx], nil},
		{"by a handler that enqueued", wakeByHandler[Tx], nil},
		{"by a requeue", wakeByRequeue[Tx], nil},
		{"every relay of the store object", wakeEveryNode[Tx], nil},
		{"by a commit between claim and wait", wakeBeforeWait[Tx], nil},
		{"when the context ends", wakeAtDeadline[Tx], nil},
		{"again after the relay has left", wakeAfterLeaving[Tx], nil},
		{"by the user's own transaction", wakeByOwnTx[Tx], []need{hearsCommits}},
		{"by the user's own transaction, between claim and wait", wakeByOwnTxBeforeWait[Tx], []need{hearsCommits}},
		{"by a transaction that enqueued before the wait", wakeByEarlyTx[Tx], []need{hearsCommits, concurrentWriters}},
		{"by a plain insert", wakeByInsert[Tx], []need{hearsCommits, foreignRows}},
		{"by another store object", wakeByOther[Tx], []need{hearsCommits, persists}},
	}
}

const (
	wakeLimit = 25 * time.Second       // these tests have no poll; some stores poll by themselves after 30 s
	restTime  = 100 * time.Millisecond // a relay that was not woken for this long is asleep
)

// sleeping is a relay that claims and waits, without a poll, until it finds something.
type sleeping[Tx any] struct {
	*node[Tx]
	found chan []string // ids, when it found some
	calls atomic.Int64  // of AwaitMessages
	since atomic.Int64  // when the last one began
}

// sleeps starts a relay and returns when it is asleep.
func (e *env[Tx]) sleeps(name string) *sleeping[Tx] {
	e.Helper()
	s := e.starts(name)
	e.eventually("relay "+name+" is asleep", func() bool {
		return s.calls.Load() > 0 && time.Since(time.UnixMicro(s.since.Load())) > restTime
	})
	return s
}

// starts starts a relay that stops when it has found something, or when the test ends.
func (e *env[Tx]) starts(name string) *sleeping[Tx] {
	e.Helper()
	ctx, cancel := context.WithCancel(e.ctx)
	s := &sleeping[Tx]{node: e.join(name), found: make(chan []string, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.loop(ctx)
	}()
	e.Cleanup(func() {
		cancel()
		<-ended
		e.leave(name)
	})
	return s
}

func (s *sleeping[Tx]) loop(ctx context.Context) {
	for ctx.Err() == nil {
		claims, err := s.s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: s.lease.Lanes, Limit: allRows, Due: true})
		if err != nil && ctx.Err() == nil {
			s.Errorf("ClaimMessages: %v", err)
		}
		if err != nil || len(claims) > 0 {
			s.found <- claimedIDs(claims)
			return
		}
		s.since.Store(time.Now().UnixMicro())
		s.calls.Add(1)
		if err := s.s.AwaitMessages(ctx, s.name); err != nil {
			s.Errorf("AwaitMessages: %v", err)
		}
	}
}

func (e *env[Tx]) leave(name string) {
	e.Helper()
	if err := e.s.LeaveLanes(e.ctx, name); err != nil {
		e.Errorf("LeaveLanes: %v", err)
	}
}

// wantFound checks that the relay finds the messages at once.
func (s *sleeping[Tx]) wantFound(want ...string) {
	s.Helper()
	select {
	case got := <-s.found:
		if !slices.Equal(got, want) {
			s.Errorf("relay %s was woken and claimed %v, want %v", s.name, got, want)
		}
	case <-time.After(wakeLimit):
		s.Errorf("relay %s did not find %v within %v", s.name, want, wakeLimit)
	}
}

func wakeByTransact[Tx any](e *env[Tx]) {
	r := e.sleeps("r1")
	e.enqueue(msg("a", "k"))
	r.wantFound("a")
}

// wakeBySignal: there need not be a message for a signal.
func wakeBySignal[Tx any](e *env[Tx]) {
	r := e.sleeps("r1")
	calls := r.calls.Load()
	e.s.WakeRelay()
	e.s.WakeRelay() // merged, and does not block
	e.eventually("the relay claims again", func() bool { return r.calls.Load() > calls })
	if len(r.found) > 0 {
		e.Errorf("claimed %v, want nothing", <-r.found)
	}
}

func wakeByHandler[Tx any](e *env[Tx]) {
	r := e.sleeps("r1")
	e.handleAndEnqueue(msg("a", "k"), msg("reply", "k"), nil)
	r.wantFound("reply")
}

func wakeByRequeue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.enqueue(msg("a", "k"))
	n.settle(dead(n.claimOne("a")))
	e.leave("r1")
	r := e.sleeps("r2")
	e.requeue(e.letter().Number, true)
	r.wantFound("a")
}

// wakeEveryNode: a signal is not consumed by the first relay that gets it.
func wakeEveryNode[Tx any](e *env[Tx]) {
	first, second := e.sleeps("r1"), e.sleeps("r2")
	calls := []int64{first.calls.Load(), second.calls.Load()}
	e.s.WakeRelay()
	e.eventually("both claim again", func() bool {
		return first.calls.Load() > calls[0] && second.calls.Load() > calls[1]
	})
}

// rested returns a relay that was asleep and no longer waits.
func (e *env[Tx]) rested(name string) *node[Tx] {
	e.Helper()
	r := e.sleeps(name)
	e.enqueue(msg("first", "k"))
	r.wantFound("first")
	r.settle(published(r.claimOne("first"))...)
	r.claimOnly()
	return r.node
}

// wantAwake checks that the relay, which has claimed nothing just now, finds the messages.
func (n *node[Tx]) wantAwake(want ...string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.ctx, wakeLimit)
	defer cancel()
	for {
		n.must(n.s.AwaitMessages(ctx, n.name), "AwaitMessages")
		if ctx.Err() != nil {
			n.Fatalf("relay %s did not find %v within %v", n.name, want, wakeLimit)
		}
		if claims := n.claim(); len(claims) > 0 {
			n.claimOnly(want...)
			return
		}
	}
}

func wakeBeforeWait[Tx any](e *env[Tx]) {
	n := e.rested("r1")
	e.enqueue(msg("a", "k"))
	n.wantAwake("a")
}

// wakeAtDeadline: the poll is no error.
func wakeAtDeadline[Tx any](e *env[Tx]) {
	n := e.rested("r1")
	ctx, cancel := context.WithTimeout(e.ctx, restTime)
	defer cancel()
	for ctx.Err() == nil {
		e.must(e.s.AwaitMessages(ctx, n.name), "AwaitMessages")
	}
	e.must(e.s.AwaitMessages(ctx, n.name), "AwaitMessages after the deadline")
}

// wakeAfterLeaving: a signal that came while no relay waited under the name is not missed.
func wakeAfterLeaving[Tx any](e *env[Tx]) {
	n := e.rested("r1")
	e.leave("r1")
	e.must(n.renew(contract.LeaseRequest{Join: true}), "join again")
	n.claimOnly()
	e.enqueue(msg("a", "k"))
	n.wantAwake("a")
}

func wakeByOwnTx[Tx any](e *env[Tx]) {
	r := e.sleeps("r1")
	e.enqueueOwn(msg("a", "k"))
	r.wantFound("a")
}

func (e *env[Tx]) enqueueOwn(m waybill.Message) {
	e.Helper()
	tx := e.begin()
	e.took([]waybill.Message{m}, e.enqueueIn(tx, false, m))
	e.commit(tx)
}

func wakeByOwnTxBeforeWait[Tx any](e *env[Tx]) {
	n := e.rested("r1")
	e.enqueueOwn(msg("a", "k"))
	n.wantAwake("a")
}

// wakeByEarlyTx: no relay was asleep when it enqueued.
func wakeByEarlyTx[Tx any](e *env[Tx]) {
	tx := e.begin()
	m := msg("a", "k")
	e.took([]waybill.Message{m}, e.enqueueIn(tx, false, m))
	r := e.starts("r1")
	e.eventually("the relay has waited", func() bool { return r.calls.Load() > 5 })
	e.commit(tx)
	r.wantFound("a")
}

func wakeByInsert[Tx any](e *env[Tx]) {
	r := e.sleeps("r1")
	e.must(e.h.InsertRaw(e.s, Raw{Topic: "orders", Payload: "{}"}), "InsertRaw")
	select {
	case ids := <-r.found:
		if len(ids) != 1 {
			e.Errorf("claimed %d messages, want 1", len(ids))
		}
	case <-time.After(wakeLimit):
		e.Errorf("the relay did not find the message within %v", wakeLimit)
	}
}

func wakeByOther[Tx any](e *env[Tx]) {
	r := e.sleeps("r1")
	other := e.h.Reopen(e.T, e.s)
	m := msg("a", "k")
	isNew, err := other.Transact(e.ctx, func(context.Context, Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{m}}, nil
	})
	e.must(err, "Transact")
	e.took([]waybill.Message{m}, isNew)
	r.wantFound("a")
}
