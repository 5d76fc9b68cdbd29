// Package memstore keeps outbox, inbox, dead letters and lanes in memory, for tests.
//
// It passes the same suite as the other stores and keeps nothing when the program ends, so
// it proves nothing about them. Its transactions run one after the other and roll back for
// real. It uses the time of package time and no goroutines, and so works under
// testing/synctest.
package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/wakeup"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/traffic"
)

// engine implements the operations on rows, the same in all stores that run it.
type engine = rows.Engine[*Tx]

// Store implements the contracts of outbox, relay, inbox, deadletter and janitor. It is safe for
// concurrent use, but a transaction keeps every other call waiting until it ends: do not
// call the store's own methods from within one.
type Store struct {
	engine
	turn   chan struct{} // held by the open transaction; a channel, so that synctest sees it
	open   *Tx
	wake   wakeup.Signaller
	now    func() time.Time
	step   func(name string) error // see WithSteps; nil without
	data   data
	tables *rows.Tx
}

var (
	_ outbox.Store[*Tx]      = (*Store)(nil)
	_ inspect.Outbox         = (*Store)(nil)
	_ contract.AheadSource   = (*Store)(nil)
	_ inspect.Relays         = (*Store)(nil)
	_ inspect.Inbox          = (*Store)(nil)
	_ inspect.InboxSizer     = (*Store)(nil)
	_ contract.OffsetStore   = (*Store)(nil)
	_ contract.Inbox[*Tx]    = (*Store)(nil)
	_ contract.Batcher[*Tx]  = (*Store)(nil)
	_ lease.BatchStore       = (*Store)(nil)
	_ contract.Batcher[*Tx]  = (*Store)(nil)
	_ inbox.Recorder[*Tx]    = (*Store)(nil)
	_ deadletter.Store       = (*Store)(nil)
	_ deadletter.Auditor     = (*Store)(nil)
	_ deadletter.Canceller   = (*Store)(nil)
	_ janitor.Store          = (*Store)(nil)
	_ schedule.Store[*Tx]    = (*Store)(nil)
	_ schedule.Source        = (*Store)(nil)
	_ schedule.OperatorStore = (*Store)(nil)
	_ traffic.Store          = (*Store)(nil)
	_ contract.Batcher[*Tx]  = (*Store)(nil)
)

// Option changes a store when it is made.
type Option func(*Store)

// WithClock makes the store take the time from now instead of [time.Now].
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// WithSteps makes the store call step with the name of what comes next: before a transaction
// records a message in the inbox, enqueues or schedules messages, writes an instance of a saga or
// sets a value, before it commits, and when it has committed but has not returned to the caller. An
// error strikes as the loss of the connection would: the call fails with it, and so does all that
// follows in the transaction, which rolls back unless it has committed. [Tx.Set] and [Tx.Commit],
// which return no error, panic with it. What relays and operators do is no step. Package
// waybilltest injects faults with it.
func WithSteps(step func(name string) error) Option {
	return func(s *Store) { s.step = step }
}

// New returns an empty store.
func New(options ...Option) *Store {
	s := &Store{turn: make(chan struct{}, 1), now: time.Now, data: newData()}
	s.tables = s.newTables()
	s.engine = rows.NewEngine[*Tx](database{s})
	for _, o := range options {
		o(s)
	}
	return s
}

// Tx is a transaction. It is used by one goroutine at a time and holds the store until it
// is committed or rolled back.
type Tx struct {
	store *Store
	undo  []func()
	done  bool
	lost  error // what a step failed with
}

// Begin waits until no other transaction is open and starts one. The error is ctx's.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	if ctx.Err() != nil { // of two that are ready select takes any
		return nil, context.Cause(ctx)
	}
	select {
	case s.turn <- struct{}{}:
		s.open = &Tx{store: s}
		return s.open, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Commit makes what was written in tx permanent. After the first Commit or Rollback both do
// nothing. It panics where [WithSteps] says that it fails.
func (tx *Tx) Commit() {
	if tx.done {
		return
	}
	if err := tx.step(stepCommit); err != nil {
		tx.Rollback()
		panic(err)
	}
	tx.end()
	if err := tx.store.committed(); err != nil {
		panic(err)
	}
}

// Rollback undoes what was written in tx.
func (tx *Tx) Rollback() {
	if tx.done {
		return
	}
	for i := len(tx.undo) - 1; i >= 0; i-- {
		tx.undo[i]()
	}
	tx.end()
}

func (tx *Tx) end() {
	if !tx.done {
		tx.done, tx.undo = true, nil
		<-tx.store.turn
	}
}

// Set writes a value of the user's own, such as an effect that a test wants to count. It
// panics where [WithSteps] says that it fails, and when tx has ended.
func (tx *Tx) Set(key string, value any) {
	if err := tx.step(fmt.Sprintf("set %q", key)); err != nil {
		panic(err)
	}
	put(tx, tx.store.data.values, key, value)
}

// Get reads what Set has written, in this transaction or in one before; nil if nothing.
func (tx *Tx) Get(key string) any { return tx.store.data.values[key] }

// Value reads a committed value; nil if there is none.
func (s *Store) Value(key string) any {
	tx, err := s.Begin(context.Background())
	if err != nil { // cannot happen: this context never ends
		return nil
	}
	defer tx.Rollback()
	return tx.Get(key)
}

// inTx runs fn in a new transaction.
func (s *Store) inTx(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after an error or panic; nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.given(); err != nil { // fn has ended it
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	tx.end()
	return nil
}

const (
	stepCommit = "commit"
	stepAnswer = "answer to commit"
)

// step calls the function of [WithSteps] with what tx does next. After the first error all others
// fail too.
func (tx *Tx) step(name string) error {
	if err := tx.given(); err != nil {
		return err
	}
	if tx.lost == nil && tx.store.step != nil {
		tx.lost = tx.store.step(name)
	}
	return tx.lost
}

// committed is the step after a commit, before the caller learns of it. The relay is woken after
// it, for what was enqueued, so that the step belongs to this caller and not to one that handles
// the message already.
func (s *Store) committed() error {
	defer s.WakeRelay()
	if s.step == nil {
		return nil
	}
	return s.step(stepAnswer)
}

// inSteps is inTx for transactions that call the function of WithSteps.
func (s *Store) inSteps(ctx context.Context, fn func(tx *Tx) error) error {
	err := s.inTx(ctx, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return tx.step(stepCommit)
	})
	if err != nil {
		return err
	}
	return s.committed()
}

// put sets m[k], and unsets it if tx rolls back. Values in maps are never changed in place.
func put[K comparable, V any](tx *Tx, m map[K]V, k K, v V) {
	old, had := m[k]
	tx.undo = append(tx.undo, func() {
		if had {
			m[k] = old
		} else {
			delete(m, k)
		}
	})
	m[k] = v
}

// drop deletes m[k], and restores it if tx rolls back.
func drop[K comparable, V any](tx *Tx, m map[K]V, k K) {
	if old, had := m[k]; had {
		tx.undo = append(tx.undo, func() { m[k] = old })
		delete(m, k)
	}
}

// WakeRelay implements [outbox.Store].
func (s *Store) WakeRelay() { s.wake.Signal() }

// LeaveLanes implements [contract.Source].
func (s *Store) LeaveLanes(ctx context.Context, node string) error {
	s.wake.Leave(node)
	return s.engine.LeaveLanes(ctx, node)
}

// AwaitMessages implements [contract.Source]. It learns of every commit.
func (s *Store) AwaitMessages(ctx context.Context, node string) error {
	s.wake.Wait(ctx, node)
	return nil
}
