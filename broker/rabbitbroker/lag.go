package rabbitbroker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Lagger = (*subscriber)(nil)

// Lag implements [contract.Lagger]: the messages of the group's queues that are ready. Those
// in retry queues are not counted.
func (s *subscriber) Lag(ctx context.Context) (contract.Lag, error) {
	if err := s.validate(1); err != nil {
		return contract.Lag{}, err
	}
	c, err := s.broker.consumers.get(ctx)
	if err != nil {
		return contract.Lag{}, err
	}
	return brokerkit.Lag(s.broker.topology.queues(s.sub), func(queue string) (n int64, _ error) {
		err := c.call(func() (err error) {
			n, err = ready(c, queue)
			return err
		})
		if err != nil {
			return 0, waybill.UnavailableError(fmt.Errorf("count messages of queue %s at %s: %w", queue, s.broker.address, err))
		}
		return n, nil
	})
}

// ready counts the ready messages of a queue, which may not exist. The server closes the
// channel then, so each request has its own.
func ready(c *conn, queue string) (int64, error) {
	ch, err := c.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if refusedWith(err, amqp.NotFound) != nil {
		return 0, nil
	}
	return int64(q.Messages), err
}
