package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
)

// AdvanceReplay implements [deadletter.ReplayStore].
func (s *engine[Tx]) AdvanceReplay(ctx context.Context, number int64, n int) (deadletter.Replay, error) {
	s.clean.empty()
	return s.core.AdvanceReplay(ctx, number, n)
}
