package rabbitbroker

import (
	"context"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/loop"
)

// A quorum queue redelivers in the order in which messages were given back to it. If others were given back before,
// and wait because the session had no room for them, the session's own are earlier in the queue, but would come after
// those. So a session that stops takes the others as well, and gives all of them back in order.

const (
	// readyPause is how long a stop waits for a delivery before it asks whether there are more.
	readyPause = 10 * time.Millisecond
	// returnTimeout is for how long a stop waits until a queue has what was given back. It sees that by the queue's
	// counts, which say less if others receive from it, too.
	returnTimeout = 500 * time.Millisecond
	// returnPause is how long it waits before it looks again.
	returnPause = time.Millisecond
)

// holder is a channel that has unsettled messages of queues.
type holder struct {
	channel *amqp.Channel
	queues  []string
}

// giveBackInOrder closes the session's channel, none of whose messages is being handled any longer. The single active
// consumer of a queue has everything that was given back, and nobody else would get it.
func (s *session) giveBackInOrder() {
	if s.singleActive() {
		s.end()
		return
	}
	control, err := s.openChannel()
	if err != nil {
		s.end()
		return
	}
	for _, h := range s.holders(control) {
		s.giveBackFrom(h, control)
	}
	_ = s.conn.call(control.Close) // closed in any case
}

// holders returns the channels in the order in which they are to give back: the session's own, and those on
// which it has taken, for closeTimeout at most, what waits behind.
func (s *session) holders(control *amqp.Channel) []holder {
	until := time.Now().Add(closeTimeout)
	own, rest := holder{channel: s.channel}, []holder(nil)
	for _, src := range s.sources {
		has := 0
		for _, d := range s.kept {
			if d.queue == src.queue {
				has++
			}
		}
		got, more := s.fill(control, src, cap(s.slots)-has, until)
		if has+got > 0 {
			own.queues = append(own.queues, src.queue)
		}
		for n := cap(s.slots); more && time.Now().Before(until); n *= 2 {
			channel, err := s.openChannel()
			if err != nil {
				break
			}
			rest = append(rest, holder{channel, []string{src.queue}})
			more = s.take(channel, control, src.queue, min(n, math.MaxUint16), until)
		}
	}
	return append([]holder{own}, rest...)
}

// take receives up to n messages of a queue on a channel, and reports whether more may have been given back. The
// channel receives no others, not even those given back before it is closed.
func (s *session) take(channel, control *amqp.Channel, queue string, n int, until time.Time) (more bool) {
	src := source{queue: queue}
	err := s.conn.call(func() (err error) {
		if err = channel.Qos(n, 0, false); err == nil {
			src.deliveries, err = channel.Consume(queue, queue, false, false, false, false, nil)
		}
		return err
	})
	if err != nil {
		return false
	}
	_, more = s.fill(control, src, n, until)
	return s.conn.call(func() error { return channel.Cancel(queue, false) }) == nil && more
}

// fill receives up to n messages, which stay unsettled. It returns how many came, and whether more may have
// been given back: not if one was never delivered before, or if the queue has none.
func (s *session) fill(control *amqp.Channel, src source, n int, until time.Time) (got int, more bool) {
	for got < n {
		select {
		case d, ok := <-src.deliveries:
			if !ok {
				return got, false
			}
			got++
			if !d.Redelivered || time.Now().After(until) {
				return got, false
			}
		case <-time.After(readyPause):
			q, err := s.inspect(control, src.queue)
			if err != nil || q.Messages == 0 || time.Now().After(until) {
				return got, false
			}
		}
	}
	return got, true
}

// giveBackFrom closes a channel, and waits until the queues have its messages, which happens later.
func (s *session) giveBackFrom(h holder, control *amqp.Channel) {
	before := make([]amqp.Queue, len(h.queues))
	for i, queue := range h.queues {
		before[i], _ = s.inspect(control, queue)
	}
	_ = s.conn.call(h.channel.Close) // closed in any case
	ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
	defer cancel()
	for i, queue := range h.queues {
		for ctx.Err() == nil {
			q, err := s.inspect(control, queue)
			if err != nil || q.Messages > before[i].Messages || q.Consumers < before[i].Consumers {
				break
			}
			loop.Sleep(ctx, returnPause)
		}
	}
}

func (s *session) openChannel() (channel *amqp.Channel, err error) {
	err = s.conn.call(func() (err error) {
		channel, err = s.conn.Channel()
		return err
	})
	return channel, err
}

// inspect asks how many messages of a queue are ready, and how many consumers it has.
func (s *session) inspect(control *amqp.Channel, queue string) (q amqp.Queue, err error) {
	err = s.conn.call(func() (err error) {
		q, err = control.QueueDeclarePassive(queue, false, false, false, false, nil)
		return err
	})
	return q, err
}
