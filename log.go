package waybill

import (
	"context"
	"log/slog"
)

// LogTo returns an observer that writes log records with stable keys: published messages
// and skipped duplicates with their ids at info (one record per batch), retries and
// conflicts at warn, dead letters and failed loops at error, the rest at debug.
func LogTo(l *slog.Logger) Observer { return logObserver{l} }

type logObserver struct{ l *slog.Logger }

func (o logObserver) Start(ctx context.Context, _ Op, _ ...*Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (o logObserver) Observe(ctx context.Context, e Event) {
	level := logLevel(e)
	if !o.l.Enabled(ctx, level) {
		return
	}
	o.l.LogAttrs(ctx, level, string(e.Op), logAttrs(e)...)
}

func logLevel(e Event) slog.Level {
	switch e.Op {
	case OpDead, OpFailed:
		return slog.LevelError
	case OpRetry, OpPause, OpLeaseLost, OpOvertaken:
		return slog.LevelWarn
	case OpLoop:
		if e.Err != nil {
			return slog.LevelError
		}
	case OpBackPressure:
		if e.Err != nil {
			return slog.LevelWarn
		}
		return slog.LevelInfo
	case OpPublish:
		if e.Err != nil {
			return slog.LevelError
		}
		return slog.LevelInfo
	case OpCleanup:
		if e.Err != nil {
			return slog.LevelWarn
		}
		return slog.LevelInfo
	case OpDuplicate, OpResume, OpLanes, OpRequeue, OpAddPartitions, OpDropPartitions:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func logAttrs(e Event) []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("name", e.Name)
	text("destination", e.Destination)
	text("topic", e.Topic)
	text("type", e.Type)
	switch len(e.IDs) {
	case 0:
	case 1:
		text("message_id", e.IDs[0])
	default:
		attrs = append(attrs, slog.Any("message_ids", e.IDs))
	}
	if e.Count != 0 || e.Op == OpLanes {
		attrs = append(attrs, slog.Int("count", e.Count))
	}
	if e.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", e.Attempt))
	}
	if e.Delay != 0 {
		attrs = append(attrs, slog.Duration("delay", e.Delay))
	}
	if e.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	text("reason", string(e.Reason))
	if e.Err != nil {
		attrs = append(attrs, slog.String("kind", KindOf(e.Err).String()), slog.String("error", ErrorText(e.Err)))
	}
	return attrs
}
