package e2e

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/memstore"
)

// strickenStore fails in the calls that fails names, and with it the handler, if it is among them.
type strickenStore struct {
	*memstore.Store
	fails atomic.Pointer[map[string]error]
	runs  atomic.Int64 // of the handler
}

func (s *strickenStore) strike(call string) error { return (*s.fails.Load())[call] }

func (s *strickenStore) TakeRequeued(ctx context.Context, name string, lease time.Duration) (contract.Requeued, bool, error) {
	if err := s.strike("take"); err != nil {
		return contract.Requeued{}, false, err
	}
	return s.Store.TakeRequeued(ctx, name, lease)
}

func (s *strickenStore) FailedAttempts(ctx context.Context, key inbox.Key) (contract.Attempts, error) {
	if err := s.strike("attempts"); err != nil {
		return contract.Attempts{}, err
	}
	return s.Store.FailedAttempts(ctx, key)
}

func (s *strickenStore) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	if err := s.strike("starts"); err != nil {
		return err
	}
	return s.Store.SaveStarts(ctx, key, starts)
}

func (s *strickenStore) RunRequeued(ctx context.Context, r contract.Requeued, node string, fn func(context.Context, *memstore.Tx) error) (bool, error) {
	if err := s.strike("begin"); err != nil {
		return false, err
	}
	return s.Store.RunRequeued(ctx, r, node, fn)
}

func (s *strickenStore) handle(context.Context, *memstore.Tx, *waybill.Message) error {
	s.runs.Add(1)
	return s.strike("handler")
}

// TestRequeuedOutage lets requeued letters meet an outage of ten minutes: they stay requeued and have
// no attempt more, little is tried and told meanwhile, and then each has its effect.
//
//test:sessions
func TestRequeuedOutage(t *testing.T) {
	t.Parallel()
	const letters, outage = 10, 10 * time.Minute
	gone, clash := waybill.UnavailableError(errors.New("connection refused")), waybill.ConflictError(errors.New("deadlock"))
	for _, tc := range []struct {
		name  string
		fails map[string]error
	}{
		{"the handler's database is gone", map[string]error{"handler": gone}},
		{"the handler has a conflict", map[string]error{"handler": clash}},
		{"the store is gone", map[string]error{"take": gone, "attempts": gone, "starts": gone, "begin": gone, "handler": gone}},
		{"it goes when a letter was taken", map[string]error{"attempts": gone, "starts": gone, "begin": gone}},
		{"it goes before the transaction", map[string]error{"begin": gone}},
		{"it goes in the transaction", map[string]error{"handler": gone, "starts": gone}},
		{"a conflict when a letter is taken", map[string]error{"take": clash}},
		{"a conflict before the handler", map[string]error{"begin": clash}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &strickenStore{Store: buried(t, letters)}
				s.fails.Store(&tc.fails)
				for _, l := range lettersOf(t, s) {
					if ok, err := s.RequeueDeadLetter(t.Context(), l.Number, deadletter.Act{By: "test"}); !ok || err != nil {
						t.Fatalf("requeue = %v, %v", ok, err)
					}
				}
				told := &counter{Observer: quiet}
				sub := consumer.Subscription{Group: "billing", Topics: []string{"orders"}}
				c, err := consumer.New(membroker.New(), sub, s, s.handle, consumer.Config{Observer: told})
				if err != nil {
					t.Fatal(err)
				}
				stop := run(t, t.Context(), c.Run)
				time.Sleep(outage)
				limit := int64(outage/time.Second) + 10 // the loop's first pauses are shorter
				if runs, events := s.runs.Load(), told.n.Load(); runs > limit || events > limit {
					t.Errorf("%d runs and %d events in %v of an outage, want at most %d of each", runs, events, outage, limit)
				}
				for _, l := range lettersOf(t, s) {
					if !l.Requeued || l.Attempts != 1 {
						t.Fatalf("letter = %+v, want it requeued, with the attempt that it had", l)
					}
				}
				s.runs.Store(0)
				s.fails.Store(new(map[string]error))
				time.Sleep(outage)
				if left := lettersOf(t, s); len(left) > 0 || s.runs.Load() != letters {
					t.Errorf("%d letters are left after %d runs, want each to have its effect once: %+v", len(left), s.runs.Load(), left)
				}
				stop()
			})
		})
	}
}

func lettersOf(t *testing.T, s deadletter.Store) []deadletter.Letter {
	t.Helper()
	list, err := s.DeadLetters(t.Context(), deadletter.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// counter counts what it receives.
type counter struct {
	observe.Observer
	n atomic.Int64
}

func (c *counter) Observe(context.Context, observe.Event) { c.n.Add(1) }
