package redisbroker

import (
	"context"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ consumer.Lagger = (*subscriber)(nil)

// Lag implements [consumer.Lagger]: the entries that the groups have not received yet. Redis before
// 7.0 does not count them, and no version does after somebody has deleted single entries; that is
// [consumer.ErrNoLag].
func (s *subscriber) Lag(ctx context.Context) (consumer.Lag, error) {
	sources, err := sourcesOf(s.broker.cfg.Prefix, s.subscription)
	if err != nil {
		return consumer.Lag{}, err
	}
	if err := s.broker.ready(ctx); err != nil {
		return consumer.Lag{}, err
	}
	return brokerkit.Lag(sources, func(src source) (int64, error) {
		n, err := lagScript.Run(ctx, s.broker.client, src.keys()[:1], src.group).Int64()
		if err == nil && n < 0 {
			return 0, consumer.ErrNoLag
		}
		return n, classify("count what waits for a group", err)
	})
}
