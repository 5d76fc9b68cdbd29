package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

// state is the state of a delivery.
type state int

const (
	queued       state = iota // received and not passed on, again or for the first time; or not its turn
	handed                    // passed to deliver and not settled
	waiting                   // retried and not due
	acknowledged              // done with
)

var errMoved = errors.New("kafkabroker: the partition was given to another consumer of the group, which gets the message again")

// delivery is one record.
type delivery struct {
	partition *partition
	record    *kgo.Record

	// Guarded by the run.
	state   state
	retried bool
	first   bool        // of its partition
	timer   *time.Timer // runs while it is waiting

	decoded brokerkit.Decoded
}

func (d *delivery) run() *run { return d.partition.member.run }

func (d *delivery) Message() (*waybill.Message, error) {
	return d.decoded.Get(func() (*waybill.Message, error) { return decode(d.run().broker.cfg.TopicPrefix, d.record) })
}

// Redelivered is true for what was retried, and for all that was in the partition when it was
// assigned: Kafka does not tell what an earlier owner received. The stored progress of the
// partition, if there is any, tells more.
func (d *delivery) Redelivered() bool {
	r := d.run()
	r.mu.Lock()
	defer r.mu.Unlock()
	return d.retried || d.partition.old(d)
}

// Ack marks the message as done. Its offset is committed within CommitInterval after all before
// it in its partition are done.
func (d *delivery) Ack(ctx context.Context) error {
	m := d.partition.member
	advanced, gone, err := d.acknowledge()
	switch {
	case err != nil:
		return err
	case gone:
		return m.commitLate(ctx, d.partition, advanced)
	case advanced:
		m.mark(d.partition)
		m.regulate()
	}
	return nil
}

func (d *delivery) acknowledge() (advanced, gone bool, err error) {
	r := d.run()
	if r.broker.closed() {
		return false, false, waybill.UnavailableError(fmt.Errorf("acknowledge a delivery: %w", errClosed))
	}
	r.mu.Lock()
	if d.state != handed {
		r.mu.Unlock()
		return false, false, brokerkit.ErrSettled
	}
	d.state = acknowledged
	r.release()
	advanced, gone = d.partition.advance(), d.partition.gone
	next := d.partition.following()
	r.mu.Unlock()
	if next != nil {
		r.queue.Push(next)
	}
	return advanced, gone, nil
}

// hand records that d is passed on, unless its partition is leaving.
func (d *delivery) hand() bool {
	r := d.run()
	r.mu.Lock()
	defer r.mu.Unlock()
	renew(&r.room)
	if d.partition.leaving {
		return false
	}
	d.state = handed
	return true
}

// Retry keeps the message in this process until delay has passed; it does not count as unsettled
// until then, and later messages continue. If the partition is revoked before, its next owner
// gets the message at once.
func (d *delivery) Retry(_ context.Context, delay time.Duration) error {
	r := d.run()
	if r.broker.closed() {
		return waybill.UnavailableError(fmt.Errorf("retry a delivery: %w", errClosed))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.state != handed {
		return brokerkit.ErrSettled
	}
	d.state, d.retried = waiting, true
	r.release()
	if !d.partition.leaving {
		d.timer = time.AfterFunc(max(delay, 0), func() { r.due(d) })
	}
	return nil
}

// Extend does nothing: a delivery is held for as long as its consumer is a member of the group,
// which the client library ensures.
func (d *delivery) Extend(context.Context) error { return nil }
