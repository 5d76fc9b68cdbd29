package loop

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// guardInterval is how often a panic of one observer is logged, at most.
const guardInterval = time.Minute

// Guard returns an observer that passes everything on to o and recovers from its panics.
func Guard(o observe.Observer) observe.Observer { return &guard{observer: o} }

type guard struct {
	observer observe.Observer
	logged   atomic.Pointer[time.Time] // when a panic was last logged; nil if none was
}

func (g *guard) Start(ctx context.Context, op observe.Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	started, end := ctx, func(error) {}
	g.protect(ctx, func() { started, end = g.observer.Start(ctx, op, msgs...) })
	return started, func(err error) { g.protect(ctx, func() { end(err) }) }
}

func (g *guard) Observe(ctx context.Context, e observe.Event) {
	g.protect(ctx, func() { g.observer.Observe(ctx, e) })
}

func (g *guard) protect(ctx context.Context, call func()) {
	err := Protect(func() error {
		call()
		return nil
	})
	if err == nil {
		return
	}
	now, last := time.Now(), g.logged.Load()
	if (last == nil || now.Sub(*last) >= guardInterval) && g.logged.CompareAndSwap(last, &now) {
		slog.ErrorContext(ctx, "observer panicked", "error", err)
	}
}
