package pgstore

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// contracts are those that a store implements for the packages that work on it.
type contracts[Tx any] interface {
	sqlstore.Methods[Tx]
	contract.AheadSource
	PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error)
	PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error
}

// methods are those that all SQL stores share.
type methods[Tx any] = sqlstore.Methods[Tx]

// engine implements the contracts of a [Store].
type engine[Tx any] struct {
	methods[Tx]
	core     *sqlstore.Core[Tx]
	names    names
	sql      statements
	enqueues enqueueStatements
	sleeper  *sleeper
	listener *listener
	claiming chan struct{} // held by the current claim, the only user of cursors
	cursors  *cursors
	waited   bool // whether anything waited at the latest claim; guarded by claiming
	found    int  // rows of the latest page; guarded by claiming
	clean    *cleanSet
	db       *readCommitted[Tx] // the core uses it, too
}

// newEngine returns an engine without a listener.
func newEngine[Tx any](db database[Tx], cfg Config, n names, common sqlstore.Statements, own statements) *engine[Tx] {
	gate := gateOf(cfg.CompactInbox, &common, &own)
	rc := &readCommitted[Tx]{database: db, sql: &own}
	core := &sqlstore.Core[Tx]{
		DB: rc, SQL: common, Render: n.render, Gates: gates(gate), Alone: rc.run,
		Classify: classify, ClassifyCaller: classifyCaller, LockTimedOut: lockTimedOut,
	}
	if cfg.CompactInbox {
		core.BeforeGate = newScopes(own.AddScope, rc).add
	}
	e := &engine[Tx]{
		methods:  core,
		core:     core,
		db:       rc,
		names:    n,
		sql:      own,
		enqueues: enqueueStatements{sql: &own},
		claiming: make(chan struct{}, 1),
		cursors:  newCursors(),
		clean:    newCleanSet(),
	}
	core.Enqueue, core.Settle = e.enqueue, e.settlePlan
	e.sleeper = newSleeper(&core.Signals)
	return e
}
