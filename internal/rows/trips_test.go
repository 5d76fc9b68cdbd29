package rows

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/outbox"
)

// countedTable is a table that counts its calls as a store across a network makes them: those about no row are none.
type countedTable[K comparable, R any] struct {
	MapTable[K, R]
	trips *int
}

func (c countedTable[K, R]) count(rows int) {
	if rows > 0 {
		*c.trips++
	}
}

func (c countedTable[K, R]) Get(ctx context.Context, keys ...K) ([]*R, error) {
	c.count(len(keys))
	return c.MapTable.Get(ctx, keys...)
}

func (c countedTable[K, R]) Find(ctx context.Context, q Query[*R]) ([]*R, error) {
	c.count(1)
	return c.MapTable.Find(ctx, q)
}

func (c countedTable[K, R]) Count(ctx context.Context, conditions ...Condition[*R]) (int, error) {
	c.count(1)
	return c.MapTable.Count(ctx, conditions...)
}

func (c countedTable[K, R]) Sums(ctx context.Context, since Since, conditions ...Condition[*R]) ([]Sum, error) {
	c.count(1)
	return c.MapTable.Sums(ctx, since, conditions...)
}

func (c countedTable[K, R]) Add(ctx context.Context, list ...*R) error {
	c.count(len(list))
	return c.MapTable.Add(ctx, list...)
}

func (c countedTable[K, R]) Put(ctx context.Context, list ...*R) error {
	c.count(len(list))
	return c.MapTable.Put(ctx, list...)
}

func (c countedTable[K, R]) Delete(ctx context.Context, keys ...K) error {
	c.count(len(keys))
	return c.MapTable.Delete(ctx, keys...)
}

// tripStore is a store of one goroutine, which takes nothing back.
type tripStore struct {
	tx    Tx
	trips int
	drawn map[Counter]int64
}

func newCounted[K comparable, R any](s *tripStore, key func(*R) K) countedTable[K, R] {
	m := make(map[K]*R)
	return countedTable[K, R]{MapTable[K, R]{Rows: m, Key: key, Set: func(k K, r *R) {
		if r == nil {
			delete(m, k)
		} else {
			m[k] = r
		}
	}}, &s.trips}
}

func newTripStore() *tripStore {
	s := &tripStore{drawn: make(map[Counter]int64)}
	position := func(r *Row) int64 { return r.Position }
	s.tx = Tx{
		Driver: s, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Outbox: newCounted(s, position), Scheduled: newCounted(s, position), Waiting: newCounted(s, (*Waiting).Place),
		Archive: newCounted(s, func(a *Archived) any { return a.Position }), IDs: newCounted(s, func(id *ID) outbox.Identity { return id.Identity }),
		Letters: newCounted(s, func(l *Letter) int64 { return l.Number }), Audit: newCounted(s, func(e *deadletter.Entry) int64 { return e.Number }),
		Replays: newCounted(s, func(r *Replay) int64 { return r.Number }), Inbox: newCounted(s, func(r *Record) inbox.Key { return r.Key }),
		Attempts: newCounted(s, func(a *Attempt) inbox.Key { return a.Key }), Relays: newCounted(s, func(r *Relay) string { return r.Node }),
		Lanes: newCounted(s, func(l *Lane) int { return l.Number }),
	}
	for n := range lanehash.Count {
		_ = s.tx.Lanes.Put(context.Background(), &Lane{Number: n})
	}
	return s
}

func (s *tripStore) Run(ctx context.Context, _ func() bool, fn func(context.Context, *Tx, *tripStore) error) error {
	return fn(ctx, &s.tx, s)
}

func (s *tripStore) On(ctx context.Context, _ *tripStore) (context.Context, *Tx, error) {
	return ctx, &s.tx, nil
}

func (s *tripStore) WakeRelay() {}

func (s *tripStore) Draw(_ context.Context, c Counter, n int) (int64, time.Time, error) {
	s.trips++
	first := s.drawn[c] + 1
	s.drawn[c] += int64(n)
	return first, s.tx.Now, nil
}

func (s *tripStore) Lock(_ context.Context, lanes ...int) error {
	if len(lanes) > 0 {
		s.trips++
	}
	return nil
}

func message(id, key string) waybill.Message {
	return waybill.Message{ID: id, Topic: "orders", Type: "placed", Source: "shop", Tenant: "default", Key: key}
}

// The number of round trips that the comments of the operations name.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	ctx, act := t.Context(), deadletter.Act{By: "ann", Why: "test"}
	s := newTripStore()
	e := NewEngine[*tripStore](s)
	trips := func(what string, want int, do func() error) {
		t.Helper()
		s.trips = 0
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s.trips != want {
			t.Errorf("%s: %d round trips, want %d", what, s.trips, want)
		}
	}
	enqueue := func(b outbox.Batch) func() error {
		return func() error {
			_, err := e.EnqueueMessages(ctx, s, b)
			return err
		}
	}
	trips("enqueue of fresh ids", 2, enqueue(outbox.Batch{Messages: []waybill.Message{message("a", "k"), message("b", "k"), message("c", "l")}, Fresh: true}))
	trips("enqueue of others", 4, enqueue(outbox.Batch{Messages: []waybill.Message{message("d", "m")}}))
	trips("enqueue of ids that are remembered", 6, enqueue(outbox.Batch{Messages: []waybill.Message{message("e", "n")}, Remember: true}))

	var lease contract.Lease
	trips("RenewLanes", 4, func() (err error) {
		lease, err = e.RenewLanes(ctx, contract.LeaseRequest{Node: "r", Join: true, TTL: time.Minute})
		return err
	})
	var claims []contract.Claim
	claim := func(due bool) func() error {
		return func() (err error) {
			claims, err = e.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: 100, Due: due})
			return err
		}
	}
	trips("ClaimMessages, nothing waits", 4, claim(false))
	settle := func(archive bool, outcome contract.Outcome, list []contract.Claim) func() error {
		req := contract.SettleRequest{Node: "r", Archive: archive}
		for i := range list {
			req.Settlements = append(req.Settlements, contract.Settlement{Claim: &list[i], Outcome: outcome, Reason: "rejected", Error: "no", Attempts: 1, Park: outcome == contract.Dead})
		}
		return func() error {
			_, err := e.SettleMessages(ctx, req)
			return err
		}
	}
	first := map[string][]contract.Claim{}
	for _, c := range claims {
		first[c.Message.ID] = []contract.Claim{c}
	}
	trips("SettleMessages, published", 3, settle(false, contract.Published, append(first["c"], first["e"]...)))
	trips("SettleMessages, published and kept", 5, settle(true, contract.Published, first["d"]))
	trips("SettleMessages, one dead", 13, settle(false, contract.Dead, first["a"]))
	trips("ClaimMessages, nothing is due", 5, claim(true))
	trips("SettleMessages, one to wait behind it", 10, settle(false, contract.Wait, first["b"]))

	trips("DeadLetter", 2, func() error { _, err := e.DeadLetter(ctx, 1); return err })
	trips("RequeueDeadLetter", 12, func() error { _, err := e.RequeueDeadLetter(ctx, 1, act); return err })
	trips("ClaimMessages, one is due and another behind it", 5, claim(true))
	trips("SettleMessages, dead again", 7, settle(false, contract.Dead, claims[:1]))
	trips("EditDeadLetter", 12, func() error { _, err := e.EditDeadLetter(ctx, 1, deadletter.Edit{Type: new(string)}, act); return err })
	trips("RestoreDeadLetter", 4, func() error { _, err := e.RestoreDeadLetter(ctx, 1, act); return err })
	trips("DiscardDeadLetter", 6, func() error { _, err := e.DiscardDeadLetter(ctx, 1, act); return err })

	rec := inbox.Record{Key: inbox.Key{Tenant: "default", Consumer: "billing", Source: "shop", Message: "x"}, MessageID: "x", Retried: true}
	trips("BuryMessage", 6, func() error {
		_, err := e.BuryMessage(ctx, inbox.Letter{Record: rec, Message: message("x", ""), Reason: "rejected"})
		return err
	})
	trips("RequeueDeadLetter of a consumer", 4, func() error { _, err := e.RequeueDeadLetter(ctx, 2, act); return err })
	var taken contract.Requeued
	trips("TakeRequeued", 2, func() (err error) { taken, _, err = e.TakeRequeued(ctx, "billing", 0); return err })
	trips("RunRequeued", 5, func() error {
		_, err := e.RunRequeued(ctx, taken, "b", func(context.Context, *tripStore) error { return nil })
		return err
	})
	rec.Message = "y"
	trips("SaveAttempt", 2, func() error { return e.SaveAttempt(ctx, rec.Key, contract.FailedAttempt{Count: 1}) })
	trips("ProcessOnce", 3, func() error {
		_, err := e.ProcessOnce(ctx, rec, func(context.Context, *tripStore) error { return nil })
		return err
	})
}
