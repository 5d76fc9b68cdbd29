package observe

import "context"

type nameKey struct{}

// WithName returns a context that carries the name of the relay or consumer that uses it. Both
// start their operations with such a context, for [Observer].
func WithName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// NameFrom returns the name of the relay or consumer that uses ctx, or "".
func NameFrom(ctx context.Context) string {
	name, _ := ctx.Value(nameKey{}).(string)
	return name
}
