package redisbroker

import (
	"context"

	"github.com/waybill-go/waybill/internal/results"
)

// batch collects the results of one Send.
type batch struct {
	*results.Set
	ctx  context.Context
	lost bool // the connection ended meanwhile; guarded by the lock of the publisher
}

func newBatch(ctx context.Context, n int) *batch { return &batch{Set: results.New(n), ctx: ctx} }

// wait returns the results when all are known or the batch's context is done.
func (b *batch) wait() []error {
	return b.Wait(b.ctx, func() error { return unconfirmed(b.ctx.Err()) })
}
