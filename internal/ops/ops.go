// Package ops is what operators see and do, for every user interface: it gathers the state of messages, dead
// letters, replays, schedules, sagas and relays and puts it into words, and holds the table of [Verbs] with the
// right that each needs and its name in the audit log. The command line prints it, the dashboard renders it.
//
// What is gathered is plain data; functions without input or output put it into words.
package ops

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// Outbox finds messages.
type Outbox interface {
	// MessageStates is that of [inspect.Outbox].
	MessageStates(ctx context.Context, id string) ([]inspect.MessageState, error)

	// OutboxMessages is that of [inspect.Outbox].
	OutboxMessages(ctx context.Context, f inspect.Filter) ([]inspect.MessageState, error)
}

// Replays ends bulk replays.
type Replays interface {
	// CancelReplay is that of [deadletter.ReplayStore].
	CancelReplay(ctx context.Context, number int64, act deadletter.Act) (bool, error)
}

// Stores are what operators see and change. What a store does not keep, or the operator may not access, is nil.
type Stores struct {
	Outbox    Outbox
	Letters   deadletter.Store
	Inbox     inspect.Inbox
	Replays   Replays
	Relays    inspect.Relays
	Schedules schedule.OperatorStore
	Sagas     saga.OperatorStore
	Audit     deadletter.Auditor

	Source   string           // of messages that resume an instance of a saga
	Observer observe.Observer // receives events of what operators run
}

// Of returns the interfaces that a store implements.
func Of(store any) Stores {
	var s Stores
	s.Outbox, _ = store.(Outbox)
	s.Letters, _ = store.(deadletter.Store)
	s.Inbox, _ = store.(inspect.Inbox)
	s.Replays, _ = store.(Replays)
	s.Relays, _ = store.(inspect.Relays)
	s.Schedules, _ = store.(schedule.OperatorStore)
	s.Sagas, _ = store.(saga.OperatorStore)
	s.Audit, _ = store.(deadletter.Auditor)
	return s
}
