package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// TestCanceled_OfTheHandlersOwn: a context that the handler has made and ended itself says nothing
// of our shutdown.
func TestCanceled_OfTheHandlersOwn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handle func(ctx context.Context) error
		kind   waybill.Kind
	}{
		"inner context": {func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return fmt.Errorf("ask for the price: %w", ctx.Err())
		}, waybill.Transient},
		"inner context after the timeout": {func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("ask for the price: %w", context.Canceled)
		}, waybill.Transient},
		"marked by the handler": {func(context.Context) error {
			return waybill.UnavailableError(context.Canceled)
		}, waybill.Unavailable},
		"marked permanent": {func(context.Context) error {
			return waybill.PermanentError(waybill.ReasonRejected, context.Canceled)
		}, waybill.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newConsumer(t, silentSubscriber{}, &boxStub{}, func(context.Context, int, *waybill.Message) error { return nil }, Config{})
				err := c.call(t.Context(), &waybill.Message{ID: "m"}, tc.handle)
				if got := waybill.KindOf(err); got != tc.kind {
					t.Errorf("call() = %v of kind %v, want %v", err, got, tc.kind)
				}
			})
		})
	}
}

// TestCanceled_ByShutdown: what ends because the consumer stops is not the message's fault.
func TestCanceled_ByShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := &boxStub{}
		sub := &listSubscriber{list: []*waybill.Message{{ID: "m", Topic: "orders", Source: "shop", Type: "placed"}}}
		handler := func(ctx context.Context, _ int, _ *waybill.Message) error {
			<-ctx.Done()
			return errors.New("told to stop")
		}
		c := newConsumer(t, sub, box, handler, Config{Retry: waybill.RetryPolicy{MaxRetries: -1}, HandlerTimeout: time.Hour, ShutdownGrace: time.Minute})
		runUntilIdle(t, c)
		if box.letter != nil || sub.acked.Load() != 0 || sub.retried.Load() != 1 {
			t.Errorf("letter = %+v, acknowledged %d, retried %d, want none, 0 and 1", box.letter, sub.acked.Load(), sub.retried.Load())
		}
	})
}
