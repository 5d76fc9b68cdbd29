package redisbroker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// delivery is one entry that belongs to a subscriber of a group.
type delivery struct {
	reader      *reader
	entry       redis.XMessage
	id          string
	redelivered bool
	handed      atomic.Bool // it was passed to deliver and has a slot; set before it is passed
	done        atomic.Bool

	once    sync.Once
	message *waybill.Message
	err     error
}

func (d *delivery) Message() (*waybill.Message, error) {
	d.once.Do(func() {
		d.message, d.err = decode(d.reader.source, d.entry)
		d.entry = redis.XMessage{}
	})
	return d.message, d.err
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
func (d *delivery) hand() bool {
	if d.done.Load() {
		return false
	}
	d.handed.Store(true)
	return true
}

// settle makes sure that a delivery is settled once.
func (d *delivery) settle(doing string) error {
	if d.reader.broker.closed() {
		return waybill.UnavailableError(fmt.Errorf("%s a delivery: %w", doing, errClosed))
	}
	if d.done.Swap(true) {
		return fmt.Errorf("redisbroker: %s: delivery was settled before", doing)
	}
	return nil
}

// take settles a delivery that is to be released, and reports whether it was open.
func (d *delivery) take() bool {
	if d.done.Swap(true) {
		return false
	}
	d.reader.settled(d)
	return true
}
