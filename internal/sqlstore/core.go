// Package sqlstore implements what stores over SQL have in common: the order of the statements, the arguments
// they take, and the reading of their results. Statements that are the same in several stores are in sql/*.sql,
// the others, which replace or complement them, in the same folder of each store. Package sqlfile says how
// these files are read, [LoadStatements] what they may have in braces.
package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/wakeup"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/traffic"
)

// Core implements the parts of a store whose statements may differ from database to database, but not their
// use. A store embeds its [Methods].
type Core[Tx any] struct {
	// DB runs the statements. Arguments are texts, integers, floats, booleans, []byte,
	// *string, *time.Time, []int, []int64 and []string; its Encode may turn them into others.
	DB sqldb.Driver[Tx]

	// Callers is DB for the transactions that run the caller's code, after which the session may be in another
	// transaction than the one that was begun. Optional; the default is DB.
	Callers sqldb.Driver[Tx]

	// SQL are the statements, with names rendered in.
	SQL Statements

	// Render does so for statements that are put together for each call.
	Render func(sql string) string

	// Enqueue stores messages, as [outbox.Store] says of EnqueueMessages.
	Enqueue func(ctx context.Context, conn sqldb.Conn, b outbox.Batch) ([]bool, error)

	// Settle does the steps of a plan, in the caller's transaction if conn is of one. Nothing is archived.
	Settle func(ctx context.Context, conn sqldb.Conn, p *settleplan.Plan) error

	// BeforeGate is called with records before they are inserted: before the transaction that does
	// so, with DB, and in a transaction of the caller's with that one's Conn. Optional.
	BeforeGate func(ctx context.Context, conn sqldb.Conn, recs ...inbox.Record) error

	// Gates insert many inbox records at once. Optional.
	Gates Gates

	// Classify gives an error of the database its kind. ClassifyCaller does so for an error of the caller's own
	// function, which may have nothing to do with the database.
	Classify, ClassifyCaller func(error) error

	// Alone runs fn, which runs one statement on conn, as a transaction. Optional; without it
	// fn runs in a transaction that is begun and committed, two round trips more. Where it is
	// set, the statements of [LeaseStatements] are one for each call.
	Alone func(ctx context.Context, fn func(conn sqldb.Conn) error) error

	// Briefly returns a Conn whose statements wait for a lock only briefly, and then fail with a conflict.
	// Optional.
	Briefly func(conn sqldb.Conn) sqldb.Conn

	// LockTimedOut reports whether err says that a statement has waited for a lock in vain.
	LockTimedOut func(err error) bool

	// Signals wake the relays that share the store object.
	Signals wakeup.Signaller

	repeating atomic.Bool // the latest message was in the inbox already
}

// Methods are the methods of [Core] that a store exports unchanged. It embeds this interface, so that the rest
// of Core does not become its own.
type Methods[Tx any] interface {
	outbox.Store[Tx]
	inspect.Outbox
	contract.Inbox[Tx]
	inbox.Recorder[Tx]
	contract.Batcher[Tx]
	inspect.Inbox
	inspect.InboxSizer
	contract.OffsetStore
	lease.BatchStore
	FindResponse(ctx context.Context, key string) ([]byte, bool, error)
	SaveResponse(ctx context.Context, key string, response []byte, ttl time.Duration) error
	inspect.Relays
	DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error)
	RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error)
	ResolveDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error)
	DeadLetter(ctx context.Context, number int64) (deadletter.Letter, error)
	DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error)
	DiscardDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error)
	RestoreDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error)
	DeleteDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error)
	EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error)
	AuditLog(ctx context.Context, f deadletter.AuditFilter) ([]deadletter.Entry, error)
	deadletter.ReplayStore
	deadletter.Auditor
	deadletter.Canceller
	FoldDeadLetters(ctx context.Context) error
	RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error)
	LeaveLanes(ctx context.Context, node string) error
	AwaitMessages(ctx context.Context, node string) error
	janitor.Store
	schedule.Source
	saga.Store[Tx]
	saga.OperatorStore
	schedule.OperatorStore
	traffic.Store
}

// Statements are the SQL texts that [Core] runs: those of sql/*.sql here, and of the store. The methods say
// which arguments they take.
type Statements struct {
	Gate, GateDead, GateOutcome              string
	FindRecord                               string
	ReadAttempts, SaveAttempt, ClearAttempts string
	SaveStarts, ClearStarts                  string
	AddLetter                                string
	AnyRequeued                              string `sql:",optional"` // empty if TakeRequeued costs no more
	TakeRequeued, HoldRequeued, RemoveLetter string
	LeaseRequeued                            string `sql:",optional"` // empty if TakeRequeued changes what it returns
	Revive, FailRequeued                     string
	ListLetters, ShowLetter                  string
	HasText                                  string // condition that a dead letter has the text ?
	PlanAfresh                               string `sql:",optional"` // empty if plans do not outlive their arguments
	LockLetter, LetterWaits                  string
	HoldUnit                                 string `sql:",optional"` // empty if there is only one writer anyway
	PendsBefore                              string // a row if the outbox has one before a dead letter, in its unit on a topic
	RequeueRelay, RequeueConsumer            string
	SettleLetter, ReleaseUnit                string
	RestoreLetter, ReleaseRecord             string
	CopyToWaiting, CopyLetter                string
	Audit, ListAudit                         string
	ListGroups, FoldDue, TryFold             string
	Fold, PruneSums                          string `sql:",optional"` // empty if there are no sums
	Nameless, SetFingerprints                string
	LockLanes                                string `sql:",optional"` // empty if there is only one writer anyway
	Join, Renew, Reap, FreeLanes, GiveLanes  string
	CutLeases                                string
	TakeLanes, OwnLanes, LeaveLanes, Leave   string
	MessageStates, OutboxStats               string
	OutboxMessages, PublishedMessages        string
	OutboxBacklog, RelayStates               string
	InboxStates, InboxSize                   string

	Cancel    CancelStatements   `sql:"cancel_"`
	Replays   ReplayStatements   `sql:"replay_"`
	Schedules ScheduleStatements `sql:"schedule_"`
	Sagas     SagaStatements     `sql:"saga_"`
	Leases    LeaseStatements    `sql:"lease_"`
	Offsets   OffsetStatements   `sql:"offset_"`
	Responses ResponseStatements `sql:"response_"`
	Traffic   TrafficStatements  `sql:"traffic_"`
	Cleanup   Cleanup            `sql:"cleanup_"`
}

// WakeRelay implements [outbox.Store].
func (c *Core[Tx]) WakeRelay() { c.Signals.Signal() }

// AwaitMessages implements [contract.Source] for a store that learns of its own commits only.
func (c *Core[Tx]) AwaitMessages(ctx context.Context, node string) error {
	c.Signals.Wait(ctx, node)
	return nil
}

// callerError is an error of the caller's own function, run within a transaction of ours.
type callerError struct{ error }

func (e callerError) Unwrap() error { return e.error }

// FromCaller marks the error of the caller's function, so that [Core.Kind] can tell it from one of the store.
// It returns nil for nil.
func FromCaller(err error) error {
	if err == nil {
		return nil
	}
	return callerError{err}
}

// Kind gives err its kind, unless it has one. The mark of [FromCaller] is taken off.
func (c *Core[Tx]) Kind(err error) error {
	if e, ok := err.(callerError); ok {
		if waybill.KindOf(e.error) != waybill.Transient {
			return e.error
		}
		return c.ClassifyCaller(e.error)
	}
	if err == nil || waybill.KindOf(err) != waybill.Transient {
		return err
	}
	return c.Classify(err)
}

// answerTimeout is the timeout of the check whether the database answers.
const answerTimeout = 5 * time.Second

// kindAfter is [Core.Kind] for an error of a transaction in which the caller's function may have
// run. If it has, the connection was lost, and the database answers on another one, then the function has ended
// the session, or caused its end: its error keeps its kind.
func (c *Core[Tx]) kindAfter(ctx context.Context, ran bool, err error) error {
	if !ran {
		return c.kindBefore(err)
	}
	var own callerError
	cause, lost := sqldb.Found(err)
	callers, kind := errors.As(cause, &own), c.Kind(err)
	switch {
	case !waybill.IsUnavailable(kind), callers && !lost, !c.answers(ctx):
		return kind
	case callers:
		return own.error
	}
	return fmt.Errorf("the database has ended the session of the transaction: %w", cause)
}

// kindBefore is [Core.Kind] for an error of a statement about an inbox key that runs before the caller's
// function. One that has waited for a lock in vain has met a transaction that handles the message.
func (c *Core[Tx]) kindBefore(err error) error {
	if err == nil || c.LockTimedOut == nil || !c.LockTimedOut(err) {
		return c.Kind(err)
	}
	return waybill.ConflictError(fmt.Errorf("%w: %w", inbox.ErrBusy, err))
}

// brief returns conn, or one that waits for locks only briefly if the database needs one for that.
func (c *Core[Tx]) brief(conn sqldb.Conn) sqldb.Conn {
	if c.Briefly == nil {
		return conn
	}
	return c.Briefly(conn)
}

func (c *Core[Tx]) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return c.Answer(ctx) == nil
}

// Answer begins a transaction, and ends it: a node of a cluster that has lost the others may answer SELECT 1
// and nothing else.
func (c *Core[Tx]) Answer(ctx context.Context) error {
	tx, err := c.DB.Begin(ctx)
	if err != nil {
		return err
	}
	return c.DB.Rollback(tx)
}

// InTx runs fn in a transaction of the store. Errors have their kind.
func (c *Core[Tx]) InTx(ctx context.Context, fn func(tx Tx, conn sqldb.Conn) error) error {
	return c.Kind(sqldb.InTx(ctx, c.DB, func(tx Tx) error { return fn(tx, c.DB.On(tx)) }))
}

// callers returns the database for a transaction that runs the caller's code.
func (c *Core[Tx]) callers() sqldb.Driver[Tx] {
	if c.Callers != nil {
		return c.Callers
	}
	return c.DB
}

// alone is InTx for a function that runs one statement; where there is no Alone it may run
// several. Errors have their kind.
func (c *Core[Tx]) alone(ctx context.Context, fn func(conn sqldb.Conn) error) error {
	if c.Alone != nil {
		return c.Kind(c.Alone(ctx, fn))
	}
	return c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error { return fn(conn) })
}

// Millis renders a duration as the statements take it.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fromMillis is the inverse of [Millis].
func fromMillis(ms float64) time.Duration { return span.Of(ms, time.Millisecond) }
