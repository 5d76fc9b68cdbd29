package membroker

import (
	"context"

	"github.com/waybill-go/waybill/consumer"
)

var _ consumer.Lagger = (*subscriber)(nil)

// Lag implements [consumer.Lagger]. Messages that wait for a retry are not
// counted.
func (s *subscriber) Lag(ctx context.Context) (consumer.Lag, error) {
	if s.err != nil {
		return consumer.Lag{}, s.err
	}
	if err := s.broker.Ping(ctx); err != nil {
		return consumer.Lag{}, err
	}
	server := s.broker.server
	server.mu.Lock()
	defer server.mu.Unlock()
	var lag consumer.Lag
	for _, q := range s.queues {
		lag.Messages += int64(len(q.ready))
	}
	return lag, nil
}
