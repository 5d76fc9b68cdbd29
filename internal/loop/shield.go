package loop

import (
	"context"
	"log/slog"

	"github.com/waybill-go/waybill"
)

// Shield returns an observer that passes everything on to o, and logs a panic of o instead of
// passing that on to the caller.
func Shield(o waybill.Observer) waybill.Observer { return shield{o} }

type shield struct{ observer waybill.Observer }

func (s shield) Start(ctx context.Context, op waybill.Op, msgs ...*waybill.Message) (started context.Context, end func(error)) {
	started, end = ctx, func(error) {}
	s.guard(func() {
		newCtx, inner := s.observer.Start(ctx, op, msgs...)
		started, end = newCtx, func(err error) { s.guard(func() { inner(err) }) }
	})
	return started, end
}

func (s shield) Observe(ctx context.Context, e waybill.Event) {
	s.guard(func() { s.observer.Observe(ctx, e) })
}

func (s shield) guard(fn func()) {
	if err := Protect(func() error { fn(); return nil }); err != nil {
		slog.Error("waybill: the observer failed", "error", waybill.ErrorText(err))
	}
}
