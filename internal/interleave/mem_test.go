package interleave_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/interleave"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/memstore"
)

// TestMem explores every order of every scenario: a step is a call.
func TestMem(t *testing.T) {
	t.Parallel()
	exploreAll(t, newMem(), all)
}

// memory is the store that the parties share, and what is known of who waits in it.
type memory struct {
	store  *memstore.Store
	offset time.Duration // of the clock
	holder atomic.Int32  // the party whose transaction holds the store; -1 if none does
	inside [maxParties]atomic.Bool
}

func newMem() *env[*memstore.Tx] {
	m := new(memory)
	e := &env[*memstore.Tx]{board: interleave.NewBoard()}
	e.wipe = func(context.Context) error {
		m.store, m.offset = memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(m.offset) })), 0
		m.holder.Store(-1)
		return nil
	}
	e.advance = func(_ context.Context, d time.Duration) error {
		m.offset += d
		return nil
	}
	e.effects = func(context.Context) ([]string, error) {
		names, _ := m.store.Value("effects").([]string)
		return names, nil
	}
	e.waits = func(context.Context) (map[int][]int, error) { return m.waits(), nil }
	e.admin = m.party(nil, func() store[*memstore.Tx] { return m.store })
	for i := range maxParties {
		gate := e.board.Local()
		e.parties = append(e.parties, m.party(gate, func() store[*memstore.Tx] { return memStore{m.store, m, gate, i} }))
		m.gateTransactions(e.parties[i], gate, i)
	}
	return e
}

// waits: who is in a call while another one's transaction is open waits for its end.
func (m *memory) waits() map[int][]int {
	waits := make(map[int][]int)
	holder := int(m.holder.Load())
	for i := range m.inside {
		if m.inside[i].Load() && holder >= 0 && holder != i {
			waits[i] = []int{holder}
		}
	}
	return waits
}

func (m *memory) party(gate *interleave.Gate, open func() store[*memstore.Tx]) *party[*memstore.Tx] {
	return &party[*memstore.Tx]{
		gate:  gate,
		open:  func() (store[*memstore.Tx], error) { return open(), nil },
		begin: func(ctx context.Context) (*memstore.Tx, error) { return m.store.Begin(ctx) },
		commit: func(_ context.Context, tx *memstore.Tx) error {
			tx.Commit()
			return nil
		},
		rollback: func(_ context.Context, tx *memstore.Tx) error {
			tx.Rollback()
			return nil
		},
		effect: func(_ context.Context, tx *memstore.Tx, name string) error {
			names, _ := tx.Get("effects").([]string)
			tx.Set("effects", append(slices.Clone(names), name))
			return nil
		},
	}
}

// gateTransactions makes steps of what a party does in transactions of its own.
func (m *memory) gateTransactions(p *party[*memstore.Tx], gate *interleave.Gate, at int) {
	s := memStore{nil, m, gate, at}
	begin, commit, rollback, effect := p.begin, p.commit, p.rollback, p.effect
	p.begin = func(ctx context.Context) (tx *memstore.Tx, err error) {
		s.call(func() {
			if tx, err = begin(ctx); err == nil {
				m.holder.Store(int32(at))
			}
		})
		return tx, err
	}
	end := func(how func(context.Context, *memstore.Tx) error) func(context.Context, *memstore.Tx) error {
		return func(ctx context.Context, tx *memstore.Tx) (err error) {
			s.call(func() {
				m.holder.Store(-1)
				err = how(ctx, tx)
			})
			return err
		}
	}
	p.commit, p.rollback = end(commit), end(rollback)
	p.effect = func(ctx context.Context, tx *memstore.Tx, name string) error {
		gate.Step()
		return effect(ctx, tx, name)
	}
}

// memStore makes a step of each call of a party.
type memStore struct {
	*memstore.Store
	memory *memory
	gate   *interleave.Gate
	at     int
}

func (s memStore) call(do func()) {
	s.gate.Step()
	s.memory.inside[s.at].Store(true)
	defer s.memory.inside[s.at].Store(false)
	do()
}

func (s memStore) ClaimMessages(ctx context.Context, req relay.ClaimRequest) (claims []relay.Claim, err error) {
	s.call(func() { claims, err = s.Store.ClaimMessages(ctx, req) })
	return claims, err
}

func (s memStore) SettleMessages(ctx context.Context, req relay.SettleRequest) (lost []int, err error) {
	s.call(func() { lost, err = s.Store.SettleMessages(ctx, req) })
	return lost, err
}

func (s memStore) RenewLanes(ctx context.Context, req relay.LeaseRequest) (lease relay.Lease, err error) {
	s.call(func() { lease, err = s.Store.RenewLanes(ctx, req) })
	return lease, err
}

func (s memStore) EnqueueMessages(ctx context.Context, tx *memstore.Tx, msgs []waybill.Message, unique bool) ([]bool, error) {
	s.gate.Step()
	return s.Store.EnqueueMessages(ctx, tx, msgs, unique)
}

func (s memStore) CancelScheduled(ctx context.Context, tx *memstore.Tx, id string) (bool, error) {
	s.gate.Step()
	return s.Store.CancelScheduled(ctx, tx, id)
}

func (s memStore) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (done bool, err error) {
	s.call(func() { done, err = s.Store.RequeueDeadLetter(ctx, number, act) })
	return done, err
}

func (s memStore) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (done bool, err error) {
	s.call(func() { done, err = s.Store.ResolveDeadLetter(ctx, number, act) })
	return done, err
}

func (s memStore) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (done bool, err error) {
	s.call(func() { done, err = s.Store.DiscardDeadLetter(ctx, number, act) })
	return done, err
}

func (s memStore) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (done bool, err error) {
	s.call(func() { done, err = s.Store.DeleteDeadLetter(ctx, number, act) })
	return done, err
}

func (s memStore) ReleaseScheduled(ctx context.Context, limit int) (n int, err error) {
	s.call(func() { n, err = s.Store.ReleaseScheduled(ctx, limit) })
	return n, err
}

func (s memStore) CancelMessage(ctx context.Context, id outbox.Identity, act deadletter.Act) (out outbox.Cancellation, err error) {
	s.call(func() { out, err = s.Store.CancelMessage(ctx, id, act) })
	return out, err
}

func (s memStore) TryBegin(ctx context.Context, req inbox.LeaseRequest) (a inbox.LeaseAnswer, err error) {
	s.call(func() { a, err = s.Store.TryBegin(ctx, req) })
	return a, err
}

func (s memStore) MarkProcessed(ctx context.Context, l inbox.Lease) (status inbox.LeaseStatus, err error) {
	s.call(func() { status, err = s.Store.MarkProcessed(ctx, l) })
	return status, err
}

func (s memStore) ProcessOnce(ctx context.Context, r inbox.Record, fn func(context.Context, *memstore.Tx) error) (out inbox.Outcome, err error) {
	s.call(func() {
		out, err = s.Store.ProcessOnce(ctx, r, func(ctx context.Context, tx *memstore.Tx) error {
			s.memory.holder.Store(int32(s.at))
			defer s.memory.holder.Store(-1)
			return fn(ctx, tx)
		})
	})
	return out, err
}

func (s memStore) BuryMessage(ctx context.Context, l inbox.Letter) (done bool, err error) {
	s.call(func() { done, err = s.Store.BuryMessage(ctx, l) })
	return done, err
}

func (s memStore) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (n int64, err error) {
	s.call(func() { n, err = s.Store.PurgeExpired(ctx, rows, limit) })
	return n, err
}
