package membroker

import (
	"context"

	"github.com/waybill-go/waybill/contract"
)

var _ contract.Lagger = (*subscriber)(nil)

// Lag implements [contract.Lagger]. Messages that wait for a retry are not
// counted.
func (s *subscriber) Lag(ctx context.Context) (contract.Lag, error) {
	if s.err != nil {
		return contract.Lag{}, s.err
	}
	if err := s.broker.Ping(ctx); err != nil {
		return contract.Lag{}, err
	}
	server := s.broker.server
	server.mu.Lock()
	defer server.mu.Unlock()
	var lag contract.Lag
	for _, q := range s.queues {
		lag.Messages += int64(len(q.ready))
	}
	return lag, nil
}
