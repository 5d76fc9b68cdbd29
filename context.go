package waybill

import "context"

type messageKey struct{}

// WithMessage returns a context that carries m, the message being handled. A consumer calls its
// handler with such a context. A message enqueued under it gets m's correlation id, tenant and
// trace context, and m's ID as causation id, wherever it leaves them empty.
func WithMessage(ctx context.Context, m *Message) context.Context {
	return context.WithValue(ctx, messageKey{}, m)
}

// MessageFrom returns the message being handled under ctx, or nil.
func MessageFrom(ctx context.Context) *Message {
	m, _ := ctx.Value(messageKey{}).(*Message)
	return m
}
