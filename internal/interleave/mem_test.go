package interleave_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/interleave"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
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
	p.begin = func(ctx context.Context) (*memstore.Tx, error) {
		return alone(s, func() (*memstore.Tx, error) {
			tx, err := begin(ctx)
			if err == nil {
				m.holder.Store(int32(at))
			}
			return tx, err
		})
	}
	end := func(how func(context.Context, *memstore.Tx) error) func(context.Context, *memstore.Tx) error {
		return func(ctx context.Context, tx *memstore.Tx) error {
			_, err := alone(s, func() (any, error) {
				m.holder.Store(-1)
				return nil, how(ctx, tx)
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

// alone makes a step of a call that has a transaction of its own.
func alone[R any](s memStore, call func() (R, error)) (R, error) {
	s.gate.Step()
	s.memory.inside[s.at].Store(true)
	defer s.memory.inside[s.at].Store(false)
	return call()
}

// holding runs what a store calls in its transaction.
func (s memStore) holding(do func() error) error {
	s.memory.holder.Store(int32(s.at))
	defer s.memory.holder.Store(-1)
	return do()
}

func (s memStore) RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	return alone(s, func() (contract.Lease, error) { return s.Store.RenewLanes(ctx, req) })
}

func (s memStore) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	return alone(s, func() ([]contract.Claim, error) { return s.Store.ClaimMessages(ctx, req) })
}

func (s memStore) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	return alone(s, func() ([]int, error) { return s.Store.SettleMessages(ctx, req) })
}

func (s memStore) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	return alone(s, func() (contract.Maintained, error) { return s.Store.MaintainArchive(ctx, req) })
}

func (s memStore) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	return alone(s, func() (int, error) { return s.Store.ReleaseScheduled(ctx, limit) })
}

func (s memStore) EnqueueMessages(ctx context.Context, tx *memstore.Tx, b outbox.Batch) ([]bool, error) {
	s.gate.Step()
	return s.Store.EnqueueMessages(ctx, tx, b)
}

func (s memStore) CancelEnqueued(ctx context.Context, tx *memstore.Tx, id outbox.Identity) (outbox.Cancellation, error) {
	s.gate.Step()
	return s.Store.CancelEnqueued(ctx, tx, id)
}

func (s memStore) AddScheduled(ctx context.Context, tx *memstore.Tx, m *waybill.Message) (bool, error) {
	s.gate.Step()
	return s.Store.AddScheduled(ctx, tx, m)
}

func (s memStore) CancelScheduled(ctx context.Context, tx *memstore.Tx, id string) (bool, error) {
	s.gate.Step()
	return s.Store.CancelScheduled(ctx, tx, id)
}

func (s memStore) MoveScheduled(ctx context.Context, tx *memstore.Tx, id string, at time.Time) (bool, error) {
	s.gate.Step()
	return s.Store.MoveScheduled(ctx, tx, id, at)
}

func (s memStore) ReadSchedule(ctx context.Context, tx *memstore.Tx, name string) (schedule.State, error) {
	s.gate.Step()
	return s.Store.ReadSchedule(ctx, tx, name)
}

func (s memStore) WriteSchedule(ctx context.Context, tx *memstore.Tx, state schedule.State) (bool, error) {
	s.gate.Step()
	return s.Store.WriteSchedule(ctx, tx, state)
}

func (s memStore) DueSchedules(ctx context.Context, after *schedule.State, limit int) (schedule.Due, error) {
	return alone(s, func() (schedule.Due, error) { return s.Store.DueSchedules(ctx, after, limit) })
}

func (s memStore) FireSchedule(ctx context.Context, state schedule.State, m *waybill.Message) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.FireSchedule(ctx, state, m) })
}

func (s memStore) ReadSaga(ctx context.Context, tx *memstore.Tx, id saga.ID, lock bool) (saga.Instance, error) {
	s.gate.Step()
	return s.Store.ReadSaga(ctx, tx, id, lock)
}

func (s memStore) WriteSaga(ctx context.Context, tx *memstore.Tx, in *saga.Instance, e saga.Entry) (bool, error) {
	s.gate.Step()
	return s.Store.WriteSaga(ctx, tx, in, e)
}

func (s memStore) AddRecord(ctx context.Context, tx *memstore.Tx, r inbox.Record) (bool, error) {
	s.gate.Step()
	return s.Store.AddRecord(ctx, tx, r)
}

func (s memStore) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.RequeueDeadLetter(ctx, number, act) })
}

func (s memStore) ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.ResolveDeadLetter(ctx, number, act) })
}

func (s memStore) DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.DiscardDeadLetter(ctx, number, act) })
}

func (s memStore) RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.RestoreDeadLetter(ctx, number, act) })
}

func (s memStore) DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.DeleteDeadLetter(ctx, number, act) })
}

func (s memStore) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error) {
	return alone(s, func() (string, error) { return s.Store.EditDeadLetter(ctx, number, edit, act) })
}

func (s memStore) AdvanceReplay(ctx context.Context, number int64, n int) (deadletter.Replay, error) {
	return alone(s, func() (deadletter.Replay, error) { return s.Store.AdvanceReplay(ctx, number, n) })
}

func (s memStore) CancelReplay(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.CancelReplay(ctx, number, act) })
}

func (s memStore) CancelMessage(ctx context.Context, id outbox.Identity, act deadletter.Act) (outbox.Cancellation, error) {
	return alone(s, func() (outbox.Cancellation, error) { return s.Store.CancelMessage(ctx, id, act) })
}

func (s memStore) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	return alone(s, func() (lease.Answer, error) { return s.Store.TryBegin(ctx, req) })
}

func (s memStore) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	return alone(s, func() ([]lease.Answer, error) { return s.Store.TryBeginAll(ctx, reqs) })
}

func (s memStore) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	return alone(s, func() (lease.Answer, error) { return s.Store.RenewLease(ctx, l, ttl) })
}

func (s memStore) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	return alone(s, func() (lease.Status, error) { return s.Store.MarkProcessed(ctx, l) })
}

func (s memStore) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	return alone(s, func() (lease.Status, error) { return s.Store.ReleaseLease(ctx, l, r) })
}

func (s memStore) BuryMessage(ctx context.Context, l inbox.Letter) (bool, error) {
	return alone(s, func() (bool, error) { return s.Store.BuryMessage(ctx, l) })
}

func (s memStore) PurgeExpired(ctx context.Context, rows janitor.Rows, limit int) (int64, error) {
	return alone(s, func() (int64, error) { return s.Store.PurgeExpired(ctx, rows, limit) })
}

func (s memStore) LeaveLanes(ctx context.Context, node string) error {
	_, err := alone(s, func() (any, error) { return nil, s.Store.LeaveLanes(ctx, node) })
	return err
}

func (s memStore) SaveAttempt(ctx context.Context, key inbox.Key, a contract.FailedAttempt) error {
	_, err := alone(s, func() (any, error) { return nil, s.Store.SaveAttempt(ctx, key, a) })
	return err
}

func (s memStore) ProcessOnce(ctx context.Context, r inbox.Record, fn func(context.Context, *memstore.Tx) error) (inbox.Outcome, error) {
	return alone(s, func() (inbox.Outcome, error) {
		return s.Store.ProcessOnce(ctx, r, func(ctx context.Context, tx *memstore.Tx) error {
			return s.holding(func() error { return fn(ctx, tx) })
		})
	})
}

func (s memStore) ProcessBatch(ctx context.Context, list []inbox.Record, fn func(context.Context, *memstore.Tx, []int) error) ([]inbox.Outcome, error) {
	return alone(s, func() ([]inbox.Outcome, error) {
		return s.Store.ProcessBatch(ctx, list, func(ctx context.Context, tx *memstore.Tx, fresh []int) error {
			return s.holding(func() error { return fn(ctx, tx, fresh) })
		})
	})
}
