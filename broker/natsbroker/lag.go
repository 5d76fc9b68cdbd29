package natsbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Lagger = (*subscriber)(nil)

// Lag implements [contract.Lagger]: the messages that the group's durable consumers have not
// delivered yet. Those that wait for a retry are not counted.
func (s *subscriber) Lag(ctx context.Context) (contract.Lag, error) {
	durables, err := durablesOf(s.broker.cfg.SubjectPrefix, s.subscription)
	if err != nil {
		return contract.Lag{}, err
	}
	return brokerkit.Lag(durables, func(d durable) (int64, error) { return s.broker.pending(ctx, d) })
}

// pending counts what a durable consumer, which may not exist, has not delivered yet.
func (b *Broker) pending(ctx context.Context, d durable) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c, err := b.js.Consumer(ctx, b.cfg.Stream, d.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, classify(fmt.Sprintf("count messages of consumer %q of stream %q", d.name, b.cfg.Stream), err)
	}
	return int64(c.CachedInfo().NumPending), nil
}
