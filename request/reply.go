package request

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
)

// ErrNotAsked reports that the message being handled asks for no reply. It is permanent. A handler
// that receives requests and other messages calls [AddressOf] first.
var ErrNotAsked = waybill.PermanentError(waybill.ReasonRejected, errors.New("request: the message being handled asks for no reply"))

// Reply enqueues reply, the answer to the message that is being handled under ctx (see
// [waybill.WithMessage]), in the handler's transaction: it is published after that has
// committed, and never if it rolls back. The relay of the outbox must publish to the broker that
// the request came from.
//
// reply needs a payload only. Its To is set here; an empty Type becomes that of the request with
// the suffix ".reply". The error is [ErrNotAsked], or that of [outbox.Writer.Enqueue].
func Reply[Tx any](ctx context.Context, w *outbox.Writer[Tx], tx Tx, reply waybill.Message) error {
	reply, err := address(ctx, reply)
	if err != nil {
		return err
	}
	_, err = w.Enqueue(ctx, tx, reply)
	return err
}

// ReplyNow publishes reply at once, for a handler that has no transaction. source names the service
// in it. It makes one attempt, of at most 5 seconds; after an error the caller decides about the
// request. Otherwise it is like [Reply].
func ReplyNow(ctx context.Context, b Broker, source string, reply waybill.Message) error {
	reply, err := address(ctx, reply)
	if err != nil {
		return err
	}
	asked := waybill.MessageFrom(ctx)
	reply.Source, reply.TraceParent, reply.TraceState = source, asked.TraceParent, asked.TraceState
	reply.Complete()
	if err := reply.Validate(); err != nil {
		return err
	}
	return attempt(ctx, b.Publisher(), contract.Outgoing{Message: &reply, DedupID: reply.ID})
}

// address returns reply as the answer to the message being handled under ctx.
func address(ctx context.Context, reply waybill.Message) (waybill.Message, error) {
	asked := waybill.MessageFrom(ctx)
	if asked == nil {
		return reply, ErrNotAsked
	}
	to, ok := AddressOf(asked)
	if !ok {
		return reply, ErrNotAsked
	}
	derived := asked.Derive()
	reply.To, reply.Topic = to, ""
	reply.CausationID, reply.CorrelationID, reply.Tenant = derived.CausationID, derived.CorrelationID, derived.Tenant
	if reply.Type == "" {
		reply.Type = asked.Alias() + ".reply"
	}
	return reply, nil
}
