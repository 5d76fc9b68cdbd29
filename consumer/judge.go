package consumer

import (
	"context"
	"errors"
)

// judged returns the error of a handler that ran under ctx, with the cause of the end of ctx. ctx
// is cancelled by our own shutdown or a lost lease; any other cancellation within err is of a
// context of the handler, and its message has failed.
func judged(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil { // whatever the handler makes of it
		err = errors.Join(err, context.Cause(ctx))
	}
	if errors.Is(ctx.Err(), context.Canceled) || !errors.Is(err, context.Canceled) {
		return err
	}
	return notCancelled{err}
}

// notCancelled is an error that is no [context.Canceled], whatever it wraps.
type notCancelled struct{ err error }

func (e notCancelled) Error() string      { return e.err.Error() }
func (e notCancelled) As(target any) bool { return errors.As(e.err, target) }
func (e notCancelled) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.err, target)
}
