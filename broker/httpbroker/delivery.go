package httpbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
)

var (
	errSettled = errors.New("httpbroker: delivery was settled before")
	errGone    = errors.New("httpbroker: the sender has not waited for the settlement, it will come again")
)

// webhook is the message of a request.
type webhook struct {
	message     *waybill.Message
	err         error // of decoding it
	redelivered bool
}

// clone returns a copy that shares nothing with w.
func (w webhook) clone() webhook {
	m := w.message.Clone()
	m.Payload = bytes.Clone(m.Payload)
	w.message = &m
	return w
}

// delivery is one request with a subscriber of one group.
type delivery struct {
	webhook
	receiver *Receiver
	request  context.Context // ends with the request

	isSettled atomic.Bool
	settled   chan answer // receives the one answer

	handed chan struct{} // closed when a subscriber has taken it and has set what follows
	places chan struct{} // of the subscription, one of which it occupies
	ended  chan struct{} // closed when the subscription has ended
}

func newDelivery(request context.Context, r *Receiver, w webhook) *delivery {
	return &delivery{
		receiver: r, request: request, webhook: w,
		settled: make(chan answer, 1), handed: make(chan struct{}),
	}
}

// hand gives the delivery to a subscription.
func (d *delivery) hand(places, ended chan struct{}) {
	d.places, d.ended = places, ended
	close(d.handed)
}

// refuse asks the sender to retry.
func (d *delivery) refuse() {
	d.isSettled.Store(true)
	d.settled <- away
}

func (d *delivery) Message() (*waybill.Message, error) { return d.message, d.err }

func (d *delivery) Redelivered() bool { return d.redelivered }

// Ack has the request answered. It fails if the sender is gone.
func (d *delivery) Ack(context.Context) error { return d.settle(accepted) }

// Retry asks the sender to retry. The delay is rounded up to whole seconds.
func (d *delivery) Retry(_ context.Context, delay time.Duration) error {
	return d.settle(answer{code: away.code, after: max(delay, 0)})
}

// Extend fails if the sender is gone. How long the sender waits is its own
// decision.
func (d *delivery) Extend(context.Context) error { return d.alive() }

func (d *delivery) settle(a answer) error {
	if d.isSettled.Swap(true) {
		return errSettled
	}
	<-d.places
	if err := d.alive(); err != nil {
		return err
	}
	d.settled <- a
	return nil
}

// alive returns an unavailable error if nobody waits for the answer any longer.
func (d *delivery) alive() error {
	switch {
	case d.receiver.ended():
		return waybill.UnavailableError(errClosed)
	case d.request.Err() != nil:
		return waybill.UnavailableError(fmt.Errorf("%w: %w", errGone, d.request.Err()))
	}
	return nil
}
