package redisbroker

import (
	"context"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

var _ contract.Lagger = (*subscriber)(nil)

// Lag implements [contract.Lagger]: the entries that the groups have not received yet. Redis before
// 7.0 does not count them, and no version does after somebody has deleted single entries; that is
// [contract.ErrNoLag].
func (s *subscriber) Lag(ctx context.Context) (contract.Lag, error) {
	sources, err := sourcesOf(s.broker.cfg.Prefix, s.subscription)
	if err != nil {
		return contract.Lag{}, err
	}
	if err := s.broker.ready(ctx); err != nil {
		return contract.Lag{}, err
	}
	return brokerkit.Lag(sources, func(src source) (int64, error) {
		n, err := lagScript.Run(ctx, s.broker.client, src.keys()[:1], src.group).Int64()
		if err == nil && n < 0 {
			return 0, contract.ErrNoLag
		}
		return n, classify("count what waits for a group", err)
	})
}
