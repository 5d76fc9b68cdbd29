package kafkabroker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/results"
	"github.com/waybill-go/waybill/request"
)

type publisher struct{ producer *producer }

// Send checks all of msgs, then writes those that passed. It asks the cluster about topics that
// it has not seen within a minute.
func (p publisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	s, b := p.producer.begin(msgs)
	if s == nil {
		return b.All
	}
	if err := ctx.Err(); err != nil {
		b.ResolveAll(unconfirmed(err))
	} else if records, err := p.producer.topics.encode(ctx, b); err != nil {
		b.ResolveAll(err)
		p.producer.lose(s, connectionLost())
	} else {
		p.producer.write(s, b, records)
	}
	return func() []error { return p.wait(ctx, s, b) }
}

func unconfirmed(err error) error {
	return waybill.UnavailableError(fmt.Errorf("kafkabroker: no confirmation: %w", err))
}

// batch is what one Send sends, and the results of it.
type batch struct {
	*results.Set
	msgs []contract.Outgoing
}

func newBatch(msgs []contract.Outgoing) *batch { return &batch{results.New(len(msgs)), msgs} }

// encode returns what is to be written; what is refused is nil and has its result. The error is
// about all of the batch.
func (t *topics) encode(ctx context.Context, b *batch) ([]*kgo.Record, error) {
	names := make([]string, len(b.msgs))
	var legal []string
	for i, m := range b.msgs {
		name, ok := t.cfg.placeOf(m.Topic, m.To)
		if !ok {
			b.Resolve(i, waybill.PermanentError(waybill.ReasonUnroutable,
				fmt.Errorf("kafkabroker: %q makes no legal name of a Kafka topic", m.Address())))
			continue
		}
		names[i] = name
		legal = append(legal, name)
	}
	wrong, err := t.look(ctx, legal)
	if err != nil {
		return nil, err
	}
	records := make([]*kgo.Record, len(b.msgs))
	for i, m := range b.msgs {
		switch name := names[i]; {
		case name == "":
		case wrong[name] != nil && request.IsAddress(m.To) && waybill.IsPermanent(wrong[name]):
			b.Resolve(i, nil) // without the topic nobody waits for a reply
		case wrong[name] != nil:
			b.Resolve(i, wrong[name])
		default:
			r := encode(m.Message, name, m.Structured)
			if err := checkSize(r, t.maxBytes(name)); err != nil {
				b.Resolve(i, err)
				continue
			}
			records[i] = r
		}
	}
	return records, nil
}

func checkSize(r *kgo.Record, limit int) error {
	if n := sizeOf(r); n > limit {
		return waybill.PermanentError(waybill.ReasonTooLarge,
			fmt.Errorf("kafkabroker: message has %d bytes with its headers, %s of topic %q is %d", n, maxBytesKey, r.Topic, limit))
	}
	return nil
}

// wait returns the results when all are known or ctx is done. Unconfirmed messages then end
// their session: the library must not write them after their sender was notified that they failed.
func (p publisher) wait(ctx context.Context, s *session, b *batch) []error {
	defer p.producer.end(s, b)
	select {
	case <-b.Done():
	default:
		select {
		case <-b.Done():
		case <-ctx.Done():
			b.ResolveAll(p.producer.late(s, ctx.Err()))
			p.producer.lose(s, connectionLost())
		}
	}
	return b.All()
}
