package sqlstore

import (
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// Contracts are the contracts that every SQL store implements.
type Contracts[Tx any] interface {
	outbox.Store[Tx]
	outbox.Inspector
	contract.AheadSource
	relay.Inspector
	inbox.Inbox[Tx]
	inbox.Recorder[Tx]
	inbox.Batcher[Tx]
	inbox.Inspector
	inbox.Sizer
	inbox.OffsetStore
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
}
