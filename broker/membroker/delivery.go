package membroker

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

// delivery is one entry handed to one receiver. The server's lock guards passed.
type delivery struct {
	receiver *receiver
	queue    *queue
	entry    *entry
	passed   bool // deliver was called with it
}

func (d *delivery) Message() (*waybill.Message, error) { return d.entry.mail.decode() }

func (d *delivery) Redelivered() bool { return d.entry.redelivered }

func (d *delivery) Ack(context.Context) error {
	return d.settle(func(*server) {})
}

// Retry returns the message to its queue, by a timer if delay is positive.
func (d *delivery) Retry(_ context.Context, delay time.Duration) error {
	return d.settle(func(s *server) {
		again := &entry{mail: d.entry.mail, position: d.entry.position, redelivered: true}
		if delay <= 0 {
			d.queue.put(s, again)
			return
		}
		time.AfterFunc(delay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			d.queue.put(s, again)
		})
	})
}

// Extend does nothing: a delivery lasts as long as its connection.
func (d *delivery) Extend(context.Context) error {
	if d.receiver.broker.closed.Load() {
		return waybill.UnavailableError(errClosed)
	}
	return nil
}

// settle ends the delivery, calls then, and lets the receiver have more.
func (d *delivery) settle(then func(*server)) error {
	s := d.receiver.broker.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.settle(d) {
		if d.receiver.broker.closed.Load() {
			return waybill.UnavailableError(errClosed)
		}
		return errSettled
	}
	then(s)
	d.receiver.fill(s)
	return nil
}
