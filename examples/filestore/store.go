// Package filestore keeps outbox, inbox and dead letters in a file, a line of JSON for each transaction. It is
// the smallest possible store, for reading: CONTRIBUTING.md says step by step how it was written.
// All of the data is in memory, too. A transaction holds the store until it ends; its line is on disk when it is
// committed. The file only grows. Only one process may open it at once.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/wakeup"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
)

// engine implements the operations on rows, nearly all that a store needs.
type engine = rows.Engine[*Tx]

// Store implements the contracts of outbox, relay, inbox, deadletter and janitor. It is safe for concurrent use, but
// a transaction keeps every other call waiting until it ends: do not call the store's own methods from within one.
type Store struct {
	engine
	turn  chan struct{} // held by the transaction that runs
	file  *os.File
	wake  wakeup.Signaller
	now   func() time.Time
	data  data
	files map[string]journaled // the tables by their names in the file
}

var (
	_ outbox.Store[*Tx]    = (*Store)(nil)
	_ contract.AheadSource = (*Store)(nil)
	_ contract.Inbox[*Tx]  = (*Store)(nil)
	_ inbox.Recorder[*Tx]  = (*Store)(nil)
	_ deadletter.Store     = (*Store)(nil)
	_ janitor.Store        = (*Store)(nil)
)

// Open returns the store in a file, which is created unless it exists. now is its clock; nil is [time.Now].
func Open(path string, now func() time.Time) (*Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	s := &Store{turn: make(chan struct{}, 1), file: file, now: now, data: newData()}
	s.engine, s.files = rows.NewEngine[*Tx](database{s}), s.data.files()
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
	}
	for n := range lanehash.Count {
		if s.data.lanes[n] == nil {
			s.data.lanes[n] = &rows.Lane{Number: n}
		}
	}
	return s, nil
}

// Close closes the file. The store must not be used any more.
func (s *Store) Close() error { return s.file.Close() }

// AwaitMessages implements [contract.Source]. It learns of every commit.
func (s *Store) AwaitMessages(ctx context.Context, node string) error {
	s.wake.Wait(ctx, node)
	return nil
}

// LeaveLanes implements [contract.Source].
func (s *Store) LeaveLanes(ctx context.Context, node string) error {
	s.wake.Leave(node)
	return s.engine.LeaveLanes(ctx, node)
}

// Tx is a transaction. It is used by one goroutine at a time.
type Tx struct {
	store   *Store
	tables  *rows.Tx
	undo    []func()
	changes []change
	done    bool
}

// Begin waits until no other transaction runs and starts one. The error is ctx's.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	if ctx.Err() != nil { // of two that are ready select takes any
		return nil, context.Cause(ctx)
	}
	select {
	case s.turn <- struct{}{}:
		tx := &Tx{store: s}
		tx.tables = s.data.tables(tx)
		return tx, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Commit makes what was written in tx permanent, or rolls back and returns an unavailable error. Once tx has ended it does nothing.
func (tx *Tx) Commit() error {
	defer tx.store.WakeRelay() // commit does not: relays commit, too
	return tx.commit()
}

func (tx *Tx) commit() error {
	if tx.done {
		return nil
	}
	if err := tx.store.write(tx.changes); err != nil {
		tx.Rollback()
		return waybill.UnavailableError(fmt.Errorf("write to the store: %w", err))
	}
	tx.end()
	return nil
}

// Rollback undoes what was written in tx.
func (tx *Tx) Rollback() {
	if !tx.done {
		for i := len(tx.undo) - 1; i >= 0; i-- {
			tx.undo[i]()
		}
		tx.end()
	}
}

func (tx *Tx) end() {
	tx.done = true
	<-tx.store.turn
}

// Set writes a value of the caller's own, which is committed with the messages.
func (tx *Tx) Set(key, value string) { set(tx, "values", tx.store.data.values, key, &value) }

// Get reads what Set has written, in this transaction or in one before; "" if nothing.
func (tx *Tx) Get(key string) string {
	if v := tx.store.data.values[key]; v != nil {
		return *v
	}
	return ""
}

var errTx = &waybill.InvalidError{Field: "tx", Reason: "is required, and must be open"}

// database implements [rows.Store].
type database struct{ *Store }

// Run implements [rows.Store]. Transactions do not conflict, so none is run again.
func (s database) Run(ctx context.Context, _ func() bool, fn func(ctx context.Context, t *rows.Tx, tx *Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after an error or panic; nothing after a commit
	if err := fn(ctx, tx.at(s.now()), tx); err != nil {
		return err
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	} else if tx.done { // fn has ended it
		return errTx
	}
	return tx.commit()
}

// On implements [rows.Store].
func (s database) On(ctx context.Context, tx *Tx) (context.Context, *rows.Tx, error) {
	if tx == nil || tx.done {
		return nil, nil, errTx
	}
	return ctx, tx.at(s.now()), nil
}

// WakeRelay implements [rows.Store].
func (s database) WakeRelay() { s.wake.Signal() }

func (tx *Tx) at(now time.Time) *rows.Tx {
	tx.tables.Now = now.UTC()
	return tx.tables
}

// Draw implements [rows.Driver].
func (tx *Tx) Draw(_ context.Context, c rows.Counter, n int) (int64, time.Time, error) {
	last := int64(n)
	if before := tx.store.data.drawn[c]; before != nil {
		last += *before
	}
	set(tx, "drawn", tx.store.data.drawn, c, &last)
	return last - int64(n) + 1, tx.store.now().UTC(), nil
}

// Lock implements [rows.Driver]. Transactions run one after the other, so there is nothing to lock.
func (*Tx) Lock(context.Context, ...int) error { return nil }

// Forget removes an inbox record before its time.
func (s *Store) Forget(ctx context.Context, key inbox.Key) error {
	return database{s}.Run(ctx, nil, func(ctx context.Context, t *rows.Tx, _ *Tx) error { return t.Inbox.Delete(ctx, key) })
}
