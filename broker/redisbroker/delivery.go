package redisbroker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

// delivery is one entry that belongs to a subscriber of a group.
type delivery struct {
	reader      *reader
	entry       redis.XMessage
	id          string
	redelivered bool
	fate        brokerkit.Fate
	decoded     brokerkit.Decoded
}

func (d *delivery) Message() (*waybill.Message, error) {
	return d.decoded.Get(func() (*waybill.Message, error) {
		entry := d.entry
		d.entry = redis.XMessage{} // its fields are in the message
		return decode(d.reader.source, entry)
	})
}

func (d *delivery) Redelivered() bool { return d.redelivered }

// Ack returns before Redis has answered; the acknowledgement is repeated until it has.
func (d *delivery) Ack(context.Context) error {
	if err := d.settle("acknowledge"); err != nil {
		return err
	}
	d.reader.broker.acker.add(d.reader, d.id)
	d.reader.settled(d)
	return nil
}

// Retry returns nil even if another subscriber has taken the delivery over meanwhile. If Redis was
// not reached, the message is redelivered after ClaimAfter, whether that is before or after delay.
func (d *delivery) Retry(ctx context.Context, delay time.Duration) error {
	if err := d.settle("retry"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	_, err := d.reader.broker.wait(ctx, d.reader.source, d.reader.consumer, delay, d.id)
	d.reader.dueIn(delay)
	d.reader.settled(d)
	return classify("retry a delivery", err)
}

// Extend fails if another subscriber has taken the delivery over.
func (d *delivery) Extend(ctx context.Context) error {
	if err := d.reader.broker.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	n, err := d.reader.broker.extend(ctx, d.reader.source, d.reader.consumer, d.id)
	if err == nil && n == 0 {
		return errNotOurs
	}
	return classify("extend a delivery", err)
}

// hand records that d is passed on, unless Close has released it.
func (d *delivery) hand() bool { return d.fate.Hand() }

func (d *delivery) settle(doing string) error {
	return d.fate.Settle(doing, d.reader.broker.closed(), errClosed)
}

// take settles a delivery that is to be released, and reports whether it was open.
func (d *delivery) take() bool {
	if !d.fate.Take() {
		return false
	}
	d.reader.settled(d)
	return true
}
