package main

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
)

func natsAdapter(ctx context.Context, w *world, payload []byte) (traffic, error) {
	b, err := natsbroker.Open(ctx, natsbroker.Config{URL: w.nats, Stream: w.name, SubjectPrefix: w.name + "."})
	return adapterTraffic{b, w.name, payload}, err
}

// natsHand is the loop that one would write with nats.go.
type natsHand struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	sample *nats.Msg // as the adapter writes it
	failed atomic.Pointer[error]
}

func natsByHand(ctx context.Context, w *world, payload []byte) (traffic, error) {
	ours, err := natsAdapter(ctx, w, payload) // makes the stream
	if err != nil {
		return nil, err
	}
	defer ours.close()
	if err := ours.publish(ctx, 1); err != nil {
		return nil, err
	}
	h := &natsHand{}
	if h.conn, err = nats.Connect(w.nats); err != nil {
		return nil, err
	}
	if err := h.prepare(ctx, w.name); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// prepare takes a message of the adapter's out of the stream as a sample.
func (h *natsHand) prepare(ctx context.Context, name string) (err error) {
	h.js, err = jetstream.New(h.conn, jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { h.failed.Store(&err) }))
	if err != nil {
		return err
	}
	if h.stream, err = h.js.Stream(ctx, name); err != nil {
		return err
	}
	raw, err := h.stream.GetMsg(ctx, 1)
	if err != nil {
		return err
	}
	h.sample = &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}
	return h.stream.Purge(ctx)
}

func (h *natsHand) close() { h.conn.Close() }

func (h *natsHand) publish(ctx context.Context, n int) error {
	for range n {
		m := &nats.Msg{Subject: h.sample.Subject, Header: make(nats.Header, len(h.sample.Header)), Data: h.sample.Data}
		maps.Copy(m.Header, h.sample.Header)
		id := waybill.NewID()
		m.Header["ce-id"], m.Header[nats.MsgIdHdr] = []string{id}, []string{id + " bench " + m.Subject}
		if _, err := h.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-h.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := h.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (h *natsHand) receive(ctx context.Context, n int) (last time.Time, _ error) {
	c, err := h.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "byhand", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1})
	if err != nil {
		return last, err
	}
	list, err := c.Messages(jetstream.PullMaxMessages(window))
	if err != nil {
		return last, err
	}
	defer list.Stop()
	for range n {
		m, err := list.Next()
		if err != nil {
			return last, err
		}
		if err := m.Ack(); err != nil {
			return last, err
		}
	}
	err = h.conn.FlushTimeout(time.Minute)
	return time.Now(), err
}
