package interleave_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/interleave"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/storetest"
)

// store is what scenarios ask of a store.
type store[Tx any] interface {
	storetest.Store[Tx]
	saga.Store[Tx]
	schedule.Source
	contract.Batcher[Tx]
	lease.BatchStore
}

// party is a program: a store of its own on a connection of its own.
type party[Tx any] struct {
	store[Tx] // one for each run
	open      func() (store[Tx], error)
	gate      *interleave.Gate // nil for the one that prepares and judges
	begin     func(ctx context.Context) (Tx, error)
	commit    func(ctx context.Context, tx Tx) error
	rollback  func(ctx context.Context, tx Tx) error
	effect    func(ctx context.Context, tx Tx, name string) error
	exec      func(ctx context.Context, tx Tx, sql string) error // nil if it is not SQL

	// Of one run.
	notes     []string // what came of it, for the list of outcomes
	sent      []string // ids that it has published
	lanes     []contract.Lane
	committed []string // ids that it has enqueued
	reads     bool     // it is a relay that is to find what comes later
}

// say notes what came of a session.
func (p *party[Tx]) say(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// clashed reports whether the session has ended with a conflict.
func (p *party[Tx]) clashed() bool { return slices.Contains(p.notes, fmt.Sprint(waybill.Conflict)) }

// env is a database with the programs that share it.
type env[Tx any] struct {
	board   *interleave.Board
	parties []*party[Tx]
	admin   *party[Tx]
	wipe    func(ctx context.Context) error
	connect func(ctx context.Context) error // sees to it that each party has a connection; may be nil
	waits   func(ctx context.Context) (map[int][]int, error)
	effects func(ctx context.Context) ([]string, error)
	advance func(ctx context.Context, d time.Duration) error // the clock; wipe sets it right

	orders int // that were run, of all scenarios

	// Of one run.
	active int // parties with a session
	lease  contract.Lease
	node   string
	letter int64 // the dead letter that there is
	held   lease.Lease
	replay int64
	lane   int
}

// session is what a party does.
type session[Tx any] func(ctx context.Context, e *env[Tx], p *party[Tx]) error

// scenario is a situation with the promises that hold in it, whatever the order.
type scenario[Tx any] struct {
	name     string
	begin    func(ctx context.Context, e *env[Tx]) error // may be nil
	sessions []session[Tx]
	end      func(ctx context.Context, e *env[Tx]) error
}

// all is more orders than any scenario has.
const all = 1 << 30

// atMost is how many orders of a scenario are run: all in make soak.
func atMost(orders int) int {
	if os.Getenv("E2E_SOAK") != "" {
		return all
	}
	return orders
}

// levels are isolation levels, and how many orders of a scenario are run at each.
type levels []struct {
	name   string
	orders int
}

// atEachLevel explores every scenario at each level that sessions may have by default.
func atEachLevel[Tx any](t *testing.T, open func(t *testing.T, level string) *env[Tx], list levels) {
	t.Helper()
	for _, level := range list {
		t.Run(level.name, func(t *testing.T) {
			t.Parallel()
			exploreAll(t, open(t, level.name), atMost(level.orders))
		})
	}
}

// exploreAll explores every scenario.
func exploreAll[Tx any](t *testing.T, e *env[Tx], limit int) {
	t.Helper()
	list := scenarios[Tx]()
	if e.admin.exec != nil {
		list = append(list, savepointScenarios[Tx]()...)
	}
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) { explore(t, e, s, limit) })
	}
	t.Logf("%d orders", e.orders)
}

// explore runs all orders of a scenario and reports what was visited.
func explore[Tx any](t *testing.T, e *env[Tx], s scenario[Tx], limit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := e.board.Explore(ctx, interleave.Scenario{
		Begin: func(ctx context.Context) ([]interleave.Session, error) { return e.start(ctx, s) },
		Waits: e.waits,
		End: func(ctx context.Context, errs []error) (string, error) {
			for i, err := range errs {
				if tooSlow(err) {
					return "", interleave.ErrAgain
				}
				if err != nil && waybill.KindOf(err) != waybill.Conflict {
					return "", fmt.Errorf("session %c: %w", 'A'+i, err)
				}
			}
			var outcome []string
			for _, p := range e.parties[:len(s.sessions)] {
				outcome = append(outcome, strings.Join(p.notes, ", "))
			}
			if s.end == nil {
				return strings.Join(outcome, "; "), nil
			}
			if err := s.end(ctx, e); err != nil {
				return "", fmt.Errorf("%w, after %s", err, strings.Join(outcome, "; "))
			}
			return strings.Join(outcome, "; "), nil
		},
	}, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d orders, complete: %v", r.Orders, r.Complete)
	for _, outcome := range slices.Sorted(keys(r.Outcomes)) {
		t.Logf("%5d times %s", r.Outcomes[outcome], outcome)
	}
	e.orders += r.Orders
	if !r.Complete && limit == all {
		t.Errorf("%d orders were run, and not all", r.Orders)
	}
}

func (e *env[Tx]) start(ctx context.Context, s scenario[Tx]) ([]interleave.Session, error) {
	if err := e.wipe(ctx); err != nil {
		return nil, err
	}
	if e.connect != nil {
		if err := e.connect(ctx); err != nil {
			return nil, err
		}
	}
	e.active, e.lease, e.letter = len(s.sessions), contract.Lease{}, 0
	for i, p := range append([]*party[Tx]{e.admin}, e.parties...) {
		if i <= e.active {
			var err error
			if p.store, err = p.open(); err != nil {
				return nil, err
			}
		}
		p.notes, p.sent, p.committed, p.lanes, p.reads = nil, nil, nil, nil, false
	}
	if s.begin != nil {
		if err := s.begin(ctx, e); err != nil {
			return nil, err
		}
	}
	sessions := make([]interleave.Session, len(s.sessions))
	for i, run := range s.sessions {
		p := e.parties[i]
		sessions[i] = interleave.Session{Name: string(rune('A' + i)), Gate: p.gate, Run: func(ctx context.Context) error {
			err := run(ctx, e, p)
			if err != nil {
				p.say("%s", waybill.KindOf(err))
			}
			return err
		}}
	}
	return sessions, nil
}

// msg returns a complete message of a key.
func msg(id, key string) waybill.Message {
	m := waybill.Message{ID: id, Topic: "orders", Key: key, Type: "order.created", Source: "shop", Payload: []byte(id)}
	m.Complete()
	return m
}

// enqueue stores messages in a transaction of the caller.
func (p *party[Tx]) enqueue(ctx context.Context, tx Tx, msgs ...waybill.Message) ([]bool, error) {
	return p.EnqueueMessages(ctx, tx, outbox.Batch{Messages: msgs})
}

// inTx runs fn between begin and commit, or rollback.
func (p *party[Tx]) inTx(ctx context.Context, fn func(tx Tx) error) error {
	tx, err := p.begin(ctx)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, p.rollback(ctx, tx))
	}
	return p.commit(ctx, tx)
}

// join makes the admin's store a relay of a name that owns every lane.
func (e *env[Tx]) join(ctx context.Context, node string) (err error) {
	e.node = node
	e.lease, err = e.admin.RenewLanes(ctx, contract.LeaseRequest{Node: node, Join: true, TTL: time.Hour})
	return err
}

// claimed makes messages ready and claims them.
func (e *env[Tx]) claimed(ctx context.Context, ids ...string) ([]contract.Claim, error) {
	if err := ready[Tx](ids...)(ctx, e); err != nil {
		return nil, err
	}
	return e.claim(ctx, e.admin, e.lease)
}

// claim reads what may go now, as a relay that has just got its lanes.
func (e *env[Tx]) claim(ctx context.Context, p *party[Tx], held contract.Lease) ([]contract.Claim, error) {
	req := contract.ClaimRequest{Lanes: held.Lanes, Limit: 100, Due: true}
	for _, l := range held.Lanes {
		req.Again = append(req.Again, l.Number)
	}
	return p.ClaimMessages(ctx, req)
}

// findLetter notes the dead letter that a scenario is about, the first there is.
func (e *env[Tx]) findLetter(ctx context.Context) error {
	letters, err := e.admin.DeadLetters(ctx, deadletter.Filter{})
	if err != nil {
		return err
	}
	if len(letters) == 0 {
		return errors.New("there is no dead letter")
	}
	e.letter = letters[0].Number
	return nil
}

func settled(outcome contract.Outcome, claims ...contract.Claim) []contract.Settlement {
	list := make([]contract.Settlement, len(claims))
	for i := range claims {
		list[i] = contract.Settlement{Claim: &claims[i], Outcome: outcome, Attempts: claims[i].Attempts, Life: claims[i].Life}
	}
	return list
}

func idsOf(claims []contract.Claim) (ids []string) {
	for _, c := range claims {
		ids = append(ids, c.Message.ID)
	}
	return ids
}

// drain publishes what is left, as the next owner of all lanes would, and returns the order.
func (e *env[Tx]) drain(ctx context.Context) ([]string, error) { return e.drainBy(ctx, e.admin, true) }

// drainBy publishes what a party finds in its lanes: from their beginning, or from where it has got to.
func (e *env[Tx]) drainBy(ctx context.Context, p *party[Tx], again bool) (published []string, err error) {
	req := contract.ClaimRequest{Lanes: e.lease.Lanes, Limit: 100, Due: true}
	for _, l := range e.lease.Lanes {
		if again {
			req.Again = append(req.Again, l.Number)
		}
	}
	for {
		claims, err := p.ClaimMessages(ctx, req)
		if err != nil || len(claims) == 0 {
			return published, err
		}
		published = append(published, idsOf(claims)...)
		lost, err := p.SettleMessages(ctx, contract.SettleRequest{Node: e.node, Archive: true, Settlements: settled(contract.Published, claims...)})
		if err != nil || len(lost) > 0 {
			return published, cmp.Or(err, fmt.Errorf("lanes %v are lost", lost))
		}
	}
}

// places returns where a message is.
func (e *env[Tx]) places(ctx context.Context, id string) (list []inspect.Status, err error) {
	states, err := e.admin.MessageStates(ctx, id)
	for _, s := range states {
		list = append(list, s.Status)
	}
	slices.Sort(list)
	return list, err
}

// wantPlaces expects a message in these places, in this order.
func (e *env[Tx]) wantPlaces(ctx context.Context, id string, want ...inspect.Status) error {
	got, err := e.places(ctx, id)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("message %s is %v, want %v", id, got, want)
	}
	return err
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
