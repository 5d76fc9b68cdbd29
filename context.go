package waybill

import "context"

type messageKey struct{}

// WithMessage returns a context that carries m, the message being handled. A consumer calls
// its handler under such a context, and an outbox writer gives what is enqueued under it
// m's correlation id, tenant and trace context, and m's ID as causation id, wherever the
// enqueued message leaves them empty.
func WithMessage(ctx context.Context, m *Message) context.Context {
	return context.WithValue(ctx, messageKey{}, m)
}

// MessageFrom returns the message being handled under ctx, or nil.
func MessageFrom(ctx context.Context) *Message {
	m, _ := ctx.Value(messageKey{}).(*Message)
	return m
}
