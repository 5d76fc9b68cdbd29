package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// savedResponse is a handler's response, until it expires.
type savedResponse struct {
	data  []byte
	until time.Time
}

// FindResponse returns the response that is stored under key, and false if there is none or it has
// expired. Package idempotency says what responses are.
func (s *Store) FindResponse(ctx context.Context, key string) (response []byte, found bool, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		saved, ok := s.data.responses[key]
		if found = ok && saved.until.After(s.now()); found {
			response = slices.Clone(saved.data)
		}
		return nil
	})
	return response, found, err
}

// SaveResponse stores a response under key for the given time, which is at least a millisecond,
// unless one is stored there already that has not expired. The key follows the rules of
// [lease.ValidateKey].
func (s *Store) SaveResponse(ctx context.Context, key string, response []byte, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return &waybill.InvalidError{Field: "ttl", Reason: fmt.Sprintf("is %v; it must be at least a millisecond", ttl)}
	}
	if err := lease.ValidateKey(key); err != nil {
		return err
	}
	return s.inTx(ctx, func(tx *Tx) error {
		now := s.now()
		if saved, ok := s.data.responses[key]; !ok || !saved.until.After(now) {
			put(tx, s.data.responses, key, savedResponse{data: slices.Clone(response), until: now.Add(ttl)})
		}
		return nil
	})
}
