package memstore

import (
	"context"

	"github.com/waybill-go/waybill/inbox"
)

// SaveStarts implements [inbox.Inbox].
func (s *Store) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	return s.inTx(ctx, func(tx *Tx) error {
		s.saveStarts(tx, key, starts)
		return nil
	})
}

func (s *Store) saveStarts(tx *Tx, key inbox.Key, starts int) {
	past, ok := s.data.attempts[key]
	if !ok && starts == 0 {
		return
	}
	if !ok {
		past.due, past.first = s.now(), s.now()
	}
	past.starts = starts
	put(tx, s.data.attempts, key, past)
}
