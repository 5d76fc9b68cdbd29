package kafkabroker

import (
	"github.com/waybill-go/waybill/internal/results"
	"github.com/waybill-go/waybill/relay"
)

// batch is what one Send sends, and the results of it.
type batch struct {
	*results.Set
	msgs []relay.Outgoing
}

func newBatch(msgs []relay.Outgoing) *batch { return &batch{results.New(len(msgs)), msgs} }
