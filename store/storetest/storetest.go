// Package storetest is the suite that every store passes. It uses a store only through the contracts of outbox,
// relay, inbox, deadletter and janitor; what a store cannot do is declared in [Features], never skipped by the
// store's own tests.
//
// [RunLeases] is the suite of the lease contract, also for stores that offer nothing else.
//
// The suite never sleeps until something is due: [Harness.Advance] moves the store's clock.
// Every test opens a store of its own and, when it ends, checks that each message which it
// enqueued is in exactly one place.
package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
)

// Store is what a store offers to the suite.
type Store[Tx any] interface {
	outbox.Store[Tx]
	inspect.Outbox
	contract.AheadSource
	inspect.Relays
	contract.Inbox[Tx]
	inspect.Inbox
	inspect.InboxSizer
	inbox.Recorder[Tx]
	deadletter.Store
	deadletter.ReplayStore
	deadletter.Auditor
	deadletter.Canceller
	janitor.Store

	// FoldDeadLetters keeps reading groups fast. It changes no answer.
	FoldDeadLetters(ctx context.Context) error
}

// Features declares what a store can do; tests of other features are left out.
type Features struct {
	// Lanes is how many lanes the store has. Required.
	Lanes int

	// ConcurrentWriters says that several transactions may have written, and not yet
	// committed, at the same time.
	ConcurrentWriters bool

	// Persists says that a reopened store finds its earlier data.
	Persists bool

	// ClashesAtOnce says that a transaction fails with a conflict if it meets a write of another one, instead
	// of waiting for the outcome.
	ClashesAtOnce bool

	// HearsCommits says that AwaitMessages also learns of what others commit: the user's own
	// transactions, programs in other languages, and other store objects on the same data.
	HearsCommits bool

	// NoForeignRows says that only the library can enqueue: the database draws no position and
	// computes no lane for what another program writes.
	NoForeignRows bool

	// TerseInbox says that records hold nothing of a message that is not in its key.
	TerseInbox bool

	// InboxBatches says that the store is a [contract.Batcher].
	InboxBatches bool

	// Offsets says that the store is a [contract.OffsetStore].
	Offsets bool

	// Schedules says that the store is a [schedule.Store] and a [schedule.Source].
	Schedules bool

	// Sagas says that the store is a [saga.Store] and a [saga.OperatorStore].
	Sagas bool

	// Traffic says that the store is a [traffic.Store].
	Traffic bool

	// Endless says that a test cannot bring the counters of the store near their end.
	Endless bool

	// EndsTransactions says that a statement which fails may end its transaction.
	EndsTransactions bool

	// KeepsAfterEnd says that what a transaction does after the database has ended it is kept.
	KeepsAfterEnd bool
}

// Raw is a message as a program in another language writes it, with a plain INSERT.
type Raw struct {
	Topic, Key string
	Headers    string // as it goes into the column, JSON or not; "" for none
	Payload    string
}

// Harness gives the suite access to one store. All fields are required, except those that say when they are.
type Harness[Tx any] struct {
	Features Features

	// Open returns a new, empty, migrated store.
	Open func(t *testing.T) Store[Tx]

	// Reopen returns a new store on the data of s, as after a restart of the program.
	// Required if Features.Persists is set.
	Reopen func(t *testing.T, s Store[Tx]) Store[Tx]

	// Begin, Commit and Rollback are the user's own transaction.
	Begin    func(t *testing.T, s Store[Tx]) Tx
	Commit   func(t *testing.T, tx Tx)
	Rollback func(t *testing.T, tx Tx)

	// Effect writes a business row under a name in tx. Effects returns how many rows under
	// that name are committed.
	Effect  func(ctx context.Context, s Store[Tx], tx Tx, name string) error
	Effects func(t *testing.T, s Store[Tx], name string) int

	// Break runs a statement in tx that fails, and with which the database rolls all of tx back or
	// will. Required if Features.EndsTransactions is set.
	Break func(ctx context.Context, s Store[Tx], tx Tx) error

	// Advance moves the clock of s, which decides what is due, leased or expired.
	Advance func(t *testing.T, s Store[Tx], d time.Duration)

	// Exhaust sets a counter of s so that it can be drawn from a number of times more. Required unless Features.Endless is set.
	Exhaust func(t *testing.T, s Store[Tx], c Counter, left int)

	// Forget removes an inbox record, as its retention does.
	Forget func(t *testing.T, s Store[Tx], key inbox.Key)

	// InsertRaw stores a message without the library's checks. The error is the database's. Required unless
	// Features.NoForeignRows is set.
	InsertRaw func(s Store[Tx], raw Raw) error
}

// Run runs the suite as subtests of t, which run in parallel with each other.
func Run[Tx any](t *testing.T, h Harness[Tx]) { runGroups(t, h, func(string) bool { return true }) }

// RunInbox runs the tests of inbox records, for a store that keeps these in another form and passes [Run]
// without it.
func RunInbox[Tx any](t *testing.T, h Harness[Tx]) {
	about := []string{"inbox", "inbox batches", "inbox states", "attempts", "starts", "bury", "offsets", "requeue", "run requeued", "take requeued", "replay", "janitor"}
	runGroups(t, h, func(group string) bool { return slices.Contains(about, group) })
}

func runGroups[Tx any](t *testing.T, h Harness[Tx], chosen func(group string) bool) {
	groups := []struct {
		name  string
		tests []test[Tx]
	}{
		{"enqueue", enqueueTests[Tx]()},
		{"no transaction", noTxTests[Tx]()},
		{"ended transactions", endedTests[Tx]()},
		{"duplicate ids", duplicateTests[Tx]()},
		{"the same id of another source or tenant", identityTests[Tx]()},
		{"fields", fieldTests[Tx]()},
		{"claim", claimTests[Tx]()},
		{"settle", settleTests[Tx]()},
		{"waiting", waitingTests[Tx]()},
		{"key order", orderTests[Tx]()},
		{"parked keys", parkTests[Tx]()},
		{"waiting alone", aloneTests[Tx]()},
		{"destinations", destinationTests[Tx]()},
		{"dead letters", deadLetterTests[Tx]()},
		{"letters", letterTests[Tx]()},
		{"history", historyTests[Tx]()},
		{"requeue", requeueTests[Tx]()},
		{"resolve", resolveTests[Tx]()},
		{"replay", replayTests[Tx]()},
		{"schedule", scheduleTests[Tx]()},
		{"cancel", cancelTests[Tx]()},
		{"scheduler", schedulerTests[Tx]()},
		{"recurring", recurringTests[Tx]()},
		{"sagas", sagaTests[Tx]()},
		{"saga lists", sagaListTests[Tx]()},
		{"saga operator", sagaOperatorTests[Tx]()},
		{"schedules, operated", scheduleOperatorTests[Tx]()},
		{"counters", counterTests[Tx]()},
		{"foreign rows", foreignTests[Tx]()},
		{"lanes", laneTests[Tx]()},
		{"wake", wakeTests[Tx]()},
		{"inspect", inspectTests[Tx]()},
		{"outbox lists", outboxListTests[Tx]()},
		{"relay states", relayStateTests[Tx]()},
		{"inbox states", inboxStateTests[Tx]()},
		{"inbox", inboxTests[Tx]()},
		{"inbox records", recordTests[Tx]()},
		{"inbox batches", inboxBatchTests[Tx]()},
		{"attempts", attemptTests[Tx]()},
		{"starts", startTests[Tx]()},
		{"bury", buryTests[Tx]()},
		{"offsets", offsetTests[Tx]()},
		{"run requeued", runRequeuedTests[Tx]()},
		{"take requeued", takeRequeuedTests[Tx]()},
		{"janitor", janitorTests[Tx]()},
		{"traffic", trafficTests[Tx]()},
		{"restart", restartTests[Tx]()},
	}
	for _, g := range groups {
		if !chosen(g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, tc := range g.tests {
				if !tc.runsWith(h.Features) {
					continue
				}
				t.Run(tc.name, func(t *testing.T) {
					t.Parallel()
					tc.run(newEnv(t, h))
				})
			}
		})
	}
}

// test is one situation.
type test[Tx any] struct {
	name  string
	run   func(e *env[Tx])
	needs []need
}

// need is what a test requires of a store.
type need func(Features) bool

func severalLanes(f Features) bool      { return f.Lanes > 1 }
func concurrentWriters(f Features) bool { return f.ConcurrentWriters }
func persists(f Features) bool          { return f.Persists }
func hearsCommits(f Features) bool      { return f.HearsCommits }
func foreignRows(f Features) bool       { return !f.NoForeignRows }
func inboxBatches(f Features) bool      { return f.InboxBatches }
func keepsOffsets(f Features) bool      { return f.Offsets }
func schedules(f Features) bool         { return f.Schedules }
func keepsSagas(f Features) bool        { return f.Sagas }
func counts(f Features) bool            { return !f.Endless }
func endsTransactions(f Features) bool  { return f.EndsTransactions }

func wordyInbox(f Features) bool { return !f.TerseInbox }

func (t test[Tx]) runsWith(f Features) bool {
	return !slices.ContainsFunc(t.needs, func(n need) bool { return !n(f) })
}
