package contract

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
)

// PublishOneByOne returns a [Publisher] made of a function that publishes one message and returns an
// error, for a broker without an adapter. publish is called for the messages of a batch one after the other,
// and by several goroutines concurrently; it must return when ctx ends. An error stops the batch if
// it is unavailable; the rest is sent later. A panic is the failure of its message.
//
// It promises less than an adapter:
//
//   - nil counts as accepted. Unless publish waits until the broker has stored the message, messages
//     are lost when the broker, or this process, ends.
//   - An error that is not marked counts as an attempt. Unless publish marks an outage with
//     [waybill.UnavailableError], an outage makes dead letters.
//   - A message that ends the connection it is sent on is found as poison only if the error wraps
//     [ErrConnectionLost].
//   - A message that is refused lets later ones of its key in the batch overtake it, unless the relay's
//     mode is relay.Strict.
//   - Each message waits for the one before, so that a batch takes as many round trips as it has
//     messages; what is not sent when PublishTimeout ends is sent later. Keep BatchSize small.
//   - Copies of a message are dropped by the broker only if publish hands on [Outgoing.DedupID].
func PublishOneByOne(publish func(ctx context.Context, m Outgoing) error) Publisher {
	return oneByOne(publish)
}

type oneByOne func(ctx context.Context, m Outgoing) error

// Send implements [Publisher].
func (publish oneByOne) Send(ctx context.Context, msgs []Outgoing) (wait func() []error) {
	return func() []error {
		errs := make([]error, len(msgs))
		for i, m := range msgs {
			if err := ctx.Err(); err != nil {
				stopped := waybill.UnavailableError(fmt.Errorf("not published: %w", err))
				return append(errs[:i], slices.Repeat([]error{stopped}, len(msgs)-i)...)
			}
			errs[i] = publish.one(ctx, m)
			if _, after := waybill.AfterOf(errs[i]); waybill.IsUnavailable(errs[i]) && !after {
				stopped := waybill.UnavailableError(fmt.Errorf("not published: the message before was not: %w", errs[i]))
				return append(errs[:i+1], slices.Repeat([]error{stopped}, len(msgs)-i-1)...)
			}
		}
		return errs
	}
}

// one publishes a message. If the end of ctx interrupts it the error is unavailable, as it says
// nothing about the message.
func (publish oneByOne) one(ctx context.Context, m Outgoing) error {
	err := loop.Protect(func() error { return publish(ctx, m) })
	if err != nil && ctx.Err() != nil && !waybill.IsPermanent(err) {
		return waybill.UnavailableError(fmt.Errorf("no answer: %w: %w", ctx.Err(), err))
	}
	return err
}
