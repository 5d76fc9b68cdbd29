package kafkabroker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Delivery = (*reply)(nil)

// reply is one delivery of a record that is addressed to a client. Nothing is committed for it:
// its address dies with the client.
type reply struct {
	replies *replies
	in      *inflow
	record  *kgo.Record
	again   bool
	fate    brokerkit.Fate
}

// Message implements [contract.Delivery].
func (d *reply) Message() (*waybill.Message, error) {
	return decode(d.replies.broker.cfg.TopicPrefix, d.record)
}

// Redelivered implements [contract.Delivery].
func (d *reply) Redelivered() bool { return d.again }

// Ack implements [contract.Delivery].
func (d *reply) Ack(context.Context) error {
	err := d.settle("acknowledge")
	if err == nil {
		<-d.in.quota
	}
	return err
}

// Retry keeps the reply in this process until delay has passed.
func (d *reply) Retry(_ context.Context, delay time.Duration) error {
	err := d.settle("retry")
	if err == nil {
		time.AfterFunc(delay, func() { d.in.queue.Push(&reply{replies: d.replies, in: d.in, record: d.record, again: true}) })
	}
	return err
}

// Extend does nothing: nobody else gets the reply.
func (d *reply) Extend(context.Context) error { return nil }

func (d *reply) settle(doing string) error {
	err := d.fate.Settle(doing, d.replies.broker.closed(), errClosed)
	if err == nil {
		d.in.queue.Free()
	}
	return err
}
