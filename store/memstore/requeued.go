package memstore

import (
	"context"
	"math"
	"time"
)

// AwaitRequeued returns when a dead letter of a consumer may be taken by [Store.TakeRequeued], or
// when ctx is done. Without one it looks again after each commit.
func (s *Store) AwaitRequeued(ctx context.Context, consumer string) {
	commits, _ := s.wake.Join("requeued " + consumer)
	for {
		next := time.NewTimer(s.untilRequeued(ctx, consumer))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
			return
		case <-commits:
			next.Stop()
		}
	}
}

// untilRequeued returns how long it is until a dead letter of a consumer may be taken: long, if
// there is none.
func (s *Store) untilRequeued(ctx context.Context, consumer string) time.Duration {
	wait := time.Duration(math.MaxInt64)
	_ = s.inTx(ctx, func(*Tx) error { // fails if ctx is done only
		for _, l := range s.data.letters {
			if l.Consumer == consumer && l.Requeued {
				wait = min(wait, l.RequeuedAt.Sub(s.now()))
			}
		}
		return nil
	})
	return max(0, wait)
}
