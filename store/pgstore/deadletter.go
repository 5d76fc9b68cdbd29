package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/deadletter"
)

// RequeueDeadLetter implements [deadletter.Store].
func (s *engine[Tx]) RequeueDeadLetter(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	s.clean.empty()
	return s.core.RequeueDeadLetter(ctx, number, act)
}

// EditDeadLetter implements [deadletter.Store].
func (s *engine[Tx]) EditDeadLetter(ctx context.Context, number int64, edit deadletter.Edit, act deadletter.Act) (string, error) {
	s.clean.empty()
	return s.core.EditDeadLetter(ctx, number, edit, act)
}
