package asbbroker

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Lagger = (*subscriber)(nil)

// Lag implements [contract.Lagger] by the counts of the group's subscriptions and queue. To Service
// Bus a locked message is active: what consumers hold is counted too. Messages that wait for a retry
// are not, nor those that the service has dead-lettered. The key needs the right to manage.
func (s *subscriber) Lag(ctx context.Context) (contract.Lag, error) {
	b := s.broker
	if err := b.names.valid(s.sub); err != nil {
		return contract.Lag{}, err
	}
	ctx, cancel := b.asking(ctx)
	defer cancel()
	return brokerkit.Lag(b.names.addresses(s.sub), func(a address) (int64, error) {
		n, err := b.topology.active(ctx, a)
		if err != nil {
			return 0, b.adminError(fmt.Sprintf("count messages of %s", a), err)
		}
		return n, nil
	})
}

// active counts the messages at an address that are neither scheduled nor dead-lettered; 0 if it is
// not there.
func (t *topology) active(ctx context.Context, a address) (int64, error) {
	if a.sub == "" {
		r, err := t.admin.GetQueueRuntimeProperties(ctx, a.queue, nil)
		if r == nil || err != nil {
			return 0, err
		}
		return int64(r.ActiveMessageCount), nil
	}
	r, err := t.admin.GetSubscriptionRuntimeProperties(ctx, a.queue, a.sub, nil)
	if r == nil || err != nil {
		return 0, err
	}
	return int64(r.ActiveMessageCount), nil
}
