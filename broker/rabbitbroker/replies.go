package rabbitbroker

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/request"
)

var _ request.ReplyOpener = (*Broker)(nil)

// OpenReplies implements [request.ReplyOpener]. The destination is a classic queue that the server
// deletes when nobody has consumed from it for [request.Expiry]. It is not exclusive: it would end
// with the connection, and replies that arrive before the next one would be lost.
func (b *Broker) OpenReplies(ctx context.Context) (address string, _ contract.Subscriber, err error) {
	address = request.NewAddress()
	s := &subscriber{broker: b, sub: consumer.Subscription{Group: address, To: address}}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	defer cancel()
	err = b.publisher.declare(ctx, func(d *declarer) error {
		_, err := d.declare(b.parts(b.current().subscription(s.sub)))
		return err
	})
	if err != nil {
		return "", nil, s.refusal(err)
	}
	return address, request.RemovedAfter(s, s.removeReplies), nil
}

// removeReplies deletes the queue. If it fails the queue expires.
func (s *subscriber) removeReplies(ctx context.Context) {
	_ = s.broker.ask(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(s.sub.To, false, false, false)
		return err
	})
}

// replyQueue returns a queue that is deleted when it is no longer used.
func replyQueue(name string) part {
	return part{kind: queuePart, name: name, ways: []amqp.Table{{
		amqp.QueueTypeArg: ClassicQueue,
		amqp.QueueTTLArg:  request.Expiry.Milliseconds(),
	}}}
}

// isReplyQueue reports whether p is a reply queue.
func (p part) isReplyQueue() bool { return p.kind == queuePart && request.IsAddress(p.name) }
