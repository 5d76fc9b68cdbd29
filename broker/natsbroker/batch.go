package natsbroker

import (
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/results"
)

// batch is what one Send sends, and the results of it.
type batch struct {
	*results.Set
	number uint64
	reply  string // what the reply subjects start with
	msgs   []contract.Outgoing
	lost   bool // the connection ended meanwhile; guarded by the lock of acks
}

func newBatch(msgs []contract.Outgoing) *batch {
	return &batch{Set: results.New(len(msgs)), msgs: msgs}
}
