package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/inbox/lease"
)

// FindResponse returns the response that is stored under key, and false if there is none or it has
// expired. Package idempotency says what responses are.
func (s *Store) FindResponse(ctx context.Context, key string) ([]byte, bool, error) {
	response, err := s.client.Get(ctx, s.responses+key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find a response: %w", classify(err))
	}
	return response, true, nil
}

// SaveResponse stores a response under key for the given time, which is at least a millisecond,
// unless one is stored there already. The key follows the rules of [lease.ValidateKey].
func (s *Store) SaveResponse(ctx context.Context, key string, response []byte, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return invalid("ttl", "is %v; it must be at least a millisecond", ttl)
	}
	if err := lease.ValidateKey(key); err != nil {
		return err
	}
	if err := s.client.SetNX(ctx, s.responses+key, response, ttl).Err(); err != nil {
		return fmt.Errorf("save a response: %w", classify(err))
	}
	return nil
}
