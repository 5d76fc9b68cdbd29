package memstore

import (
	"context"

	"github.com/waybill-go/waybill/inbox"
)

// SaveStarts implements [inbox.Inbox].
func (s *Store) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	return s.inTx(ctx, func(tx *Tx) error {
		past, ok := s.data.attempts[key]
		if !ok && starts == 0 {
			return nil
		}
		if !ok {
			past.due, past.first = s.now(), s.now()
		}
		past.starts = starts
		put(tx, s.data.attempts, key, past)
		return nil
	})
}
