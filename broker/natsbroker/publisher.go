package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/cloudevents"
	"github.com/waybill-go/waybill/internal/results"
)

const (
	msgIDHeader = "Nats-Msg-Id"

	// maxHeaders is the size of headers that JetStream stores.
	maxHeaders = 64<<10 - 1
)

var (
	_ contract.Deduplicator  = publisher{}
	_ contract.LateConfirmer = publisher{}
)

type publisher struct{ broker *Broker }

// DedupWindow implements [contract.Deduplicator].
func (p publisher) DedupWindow() time.Duration { return p.broker.Redelivery().DuplicateWindow }

// ConfirmsLate implements [contract.LateConfirmer]: pings detect a lost connection.
func (publisher) ConfirmsLate() bool { return true }

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

// Send encodes and checks all of msgs, then writes those that passed.
func (p publisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	b, clear := p.broker.acks.begin(msgs)
	switch err := p.ready(ctx); {
	case err != nil:
		b.ResolveAll(err)
	case !clear:
		b.ResolveAll(connectionLost())
	default:
		p.write(ctx, b, p.encode(b))
	}
	return func() []error { return p.wait(ctx, b) }
}

func (p publisher) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return waybill.UnavailableError(fmt.Errorf("natsbroker: publish: %w", err))
	}
	if err := p.broker.prepare(ctx); err != nil {
		return waybill.UnavailableError(err) // no message is the cause of a stream that does not serve
	}
	return nil
}

// encode returns what is to be sent; what is refused is nil and has its result.
func (p publisher) encode(b *batch) []*nats.Msg {
	list := make([]*nats.Msg, len(b.msgs))
	limit := p.broker.nc.MaxPayload()
	for i, m := range b.msgs {
		subject, ok := subjectOf(p.broker.cfg.SubjectPrefix, m.Topic, m.To)
		if !ok {
			b.Resolve(i, waybill.PermanentError(waybill.ReasonUnroutable,
				fmt.Errorf("natsbroker: %q makes no subject to publish to", m.Address())))
			continue
		}
		msg := &nats.Msg{Subject: subject}
		msg.Header, msg.Data = encode(m.Message, m.Structured)
		if m.DedupID != "" {
			msg.Header[msgIDHeader] = []string{dedupID(m, subject)}
		}
		if err := checkSize(msg, limit); err != nil {
			b.Resolve(i, err)
			continue
		}
		msg.Reply = b.reply + strconv.Itoa(i)
		list[i] = msg
	}
	return list
}

// dedupID joins what makes a message unique in the stream. No part can contain a space.
func dedupID(m contract.Outgoing, subject string) string {
	return cloudevents.Escape(m.DedupID) + " " + cloudevents.Escape(m.Source) + " " + subject
}

func checkSize(m *nats.Msg, limit int64) error {
	headers := len("NATS/1.0\r\n\r\n")
	for name, values := range m.Header {
		headers += len(name) + len(": ") + len(values[0]) + len("\r\n")
	}
	if headers > maxHeaders {
		return waybill.PermanentError(waybill.ReasonTooLarge,
			fmt.Errorf("natsbroker: headers have %d bytes, the limit is %d", headers, maxHeaders))
	}
	if n := int64(headers + len(m.Data)); limit > 0 && n > limit {
		return waybill.PermanentError(waybill.ReasonTooLarge,
			fmt.Errorf("natsbroker: message has %d bytes, the server's limit is %d", n, limit))
	}
	return nil
}

// write sends what encode has returned, in order. Once the connection fails, so does
// everything that follows.
func (p publisher) write(ctx context.Context, b *batch, list []*nats.Msg) {
	for i, msg := range list {
		if msg == nil || !b.Pending(i) {
			continue
		}
		err := p.ready(ctx)
		if err == nil {
			err = p.broker.nc.PublishMsg(msg)
		}
		switch {
		case err == nil:
		case errors.Is(err, nats.ErrMaxPayload): // the limit has changed since encode
			b.Resolve(i, waybill.PermanentError(waybill.ReasonTooLarge, fmt.Errorf("natsbroker: %w", err)))
		case ctx.Err() != nil:
			b.ResolveAll(err)
			return
		default:
			b.ResolveAll(connectionLost())
			return
		}
	}
}

// wait returns the results when all are known or ctx is done.
func (p publisher) wait(ctx context.Context, b *batch) []error {
	defer p.broker.acks.end(b)
	results := b.Wait(ctx, func() error { return unconfirmed(ctx.Err()) })
	var verdict func(subject string) error
	for i, err := range results {
		if err != errNoResponders {
			continue
		}
		if verdict == nil {
			verdict = p.broker.whyNoAnswer(ctx)
		}
		subject, _ := subjectOf(p.broker.cfg.SubjectPrefix, b.msgs[i].Topic, b.msgs[i].To)
		results[i] = verdict(subject)
	}
	return results
}
