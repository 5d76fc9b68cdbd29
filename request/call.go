package request

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// attemptTimeout is how long one attempt to publish may take: a dead connection must not use up the
// time for another one.
const attemptTimeout = 5 * time.Second

// call is one request that waits for its reply.
type call struct {
	replied chan answer // has room for one
	refused chan error  // likewise; why the broker refused the message
	trouble atomic.Pointer[error]
}

// answer is a reply, and the error of decoding it, if any.
type answer struct {
	message waybill.Message
	err     error
}

// late returns the error of a call whose context has ended.
func (w *call) late(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	if trouble := w.trouble.Load(); trouble != nil {
		return fmt.Errorf("%w; the broker has not confirmed the request: %w", ErrTimeout, *trouble)
	}
	return ErrTimeout
}

// publish publishes m, repeatedly until the broker has accepted it or refused it permanently, or
// its caller no longer waits.
func (c *Client) publish(ctx context.Context, m *waybill.Message, w *call) {
	sending, end := c.cfg.Observer.Start(observe.WithName(ctx, c.cfg.Source), observe.OpPublish, m)
	out := contract.Outgoing{Message: m, DedupID: waybill.NewID()} // m.ID may be that of an earlier request
	err := ctx.Err()
	for failures := 1; ctx.Err() == nil; failures++ {
		if err = attempt(sending, c.broker.Publisher(), out); err == nil {
			w.trouble.Store(nil)
			break
		}
		if waybill.IsPermanent(err) {
			w.refused <- err
			break
		}
		w.trouble.Store(&err)
		out.Resent = true
		loop.Sleep(ctx, backoff.Delay(retry, failures))
	}
	end(err)
}

// attempt publishes one message once. It does not end with ctx: a publisher that is interrupted in
// the middle of a message may have to close the connection, and others publish on it, too.
func attempt(ctx context.Context, p contract.Publisher, out contract.Outgoing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	return p.Send(ctx, []contract.Outgoing{out})()[0]
}
