package sqlstore

import (
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/traffic"
)

// Contracts are the contracts that every SQL store implements.
type Contracts[Tx any] interface {
	outbox.Store[Tx]
	inspect.Outbox
	contract.AheadSource
	inspect.Relays
	contract.Inbox[Tx]
	inbox.Recorder[Tx]
	contract.Batcher[Tx]
	inspect.Inbox
	inspect.InboxSizer
	contract.OffsetStore
	lease.BatchStore
	deadletter.Store
	deadletter.ReplayStore
	deadletter.Auditor
	deadletter.Canceller
	janitor.Store
	schedule.Store[Tx]
	schedule.Source
	saga.Store[Tx]
	saga.Inspector
	saga.OperatorStore
	schedule.OperatorStore
	traffic.Store
}
