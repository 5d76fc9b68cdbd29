package natsbroker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var (
	ack        = []byte("+ACK")
	nak        = []byte("-NAK")
	inProgress = []byte("+WPI")
)

// settleTimeout bounds the wait for the server's answer to a Retry whose context has no
// earlier deadline.
const settleTimeout = 5 * time.Second

// delivery is one message of one durable consumer.
type delivery struct {
	puller      *puller
	msg         *nats.Msg
	sequence    uint64 // position in the stream
	redelivered bool
	fate        brokerkit.Fate
	left        atomic.Bool // settled, but for giveBack
	decoded     brokerkit.Decoded
}

func (d *delivery) Message() (*waybill.Message, error) {
	return d.decoded.Get(func() (*waybill.Message, error) { return decode(d.puller.broker().cfg.SubjectPrefix, d.msg) })
}

func (d *delivery) hand() bool { return d.fate.Hand() }

func (d *delivery) Redelivered() bool { return d.redelivered }

// Ack does not wait for the server: an acknowledgement that is lost with its connection means a redelivery
// after AckWait, which the inbox recognises as a duplicate.
func (d *delivery) Ack(context.Context) error {
	return d.settle("acknowledge", func() error { return d.puller.nc().Publish(d.msg.Reply, ack) })
}

// Retry waits for the server's answer. If there is none the message is redelivered after AckWait, whether
// that is before or after delay. Without delay, a subscription that is stopping returns the message with
// the others that it holds, in their order.
func (d *delivery) Retry(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return d.puller.run.refuse(ctx, d)
	}
	return d.refuse(ctx, fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// refuse has the message delivered again, as body says.
func (d *delivery) refuse(ctx context.Context, body []byte) error {
	return d.settle("retry", func() error {
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()
		_, err := d.puller.nc().RequestWithContext(ctx, d.msg.Reply, body)
		return err
	})
}

func (d *delivery) Extend(context.Context) error {
	return classify("extend a delivery", d.puller.nc().Publish(d.msg.Reply, inProgress))
}

// settle settles the message with the server, once, and makes room for another whatever the outcome: if
// the settlement is lost, the server redelivers.
func (d *delivery) settle(doing string, tell func() error) error {
	if err := d.close(doing); err != nil {
		return err
	}
	err := tell()
	d.puller.settled(d)
	if err != nil {
		return classify(doing+" a delivery", err)
	}
	return nil
}

// close refuses a settlement that is a second one, or too late.
func (d *delivery) close(doing string) error {
	return d.fate.Settle(doing, d.puller.broker().ended(), errClosed)
}

// giveBack makes the server redeliver the message at once, unless it is settled. With wait it returns when
// the server has done that, and handled all that was given back before, or after a short timeout.
func (d *delivery) giveBack(wait bool) {
	if !d.left.Swap(false) && !d.fate.Take() {
		return
	}
	if wait {
		_, _ = d.puller.nc().Request(d.msg.Reply, nak, closeTimeout) // without an answer it redelivers after AckWait
	} else {
		d.puller.nc().Publish(d.msg.Reply, nak)
	}
	d.puller.settled(d)
}
