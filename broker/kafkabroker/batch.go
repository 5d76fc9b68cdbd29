package kafkabroker

import (
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/results"
)

// batch is what one Send sends, and the results of it.
type batch struct {
	*results.Set
	msgs []contract.Outgoing
}

func newBatch(msgs []contract.Outgoing) *batch { return &batch{results.New(len(msgs)), msgs} }
