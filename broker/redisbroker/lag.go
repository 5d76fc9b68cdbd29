package redisbroker

import (
	"context"

	"github.com/waybill-go/waybill/consumer"
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
	var lag consumer.Lag
	for _, src := range sources {
		n, err := lagScript.Run(ctx, s.broker.client, src.keys()[:1], src.group).Int64()
		switch {
		case err != nil:
			return consumer.Lag{}, classify("count what waits for a group", err)
		case n < 0:
			return consumer.Lag{}, consumer.ErrNoLag
		}
		lag.Messages += n
	}
	return lag, nil
}
