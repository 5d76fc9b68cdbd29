package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// logRate is how many records about published messages are written per second at info.
const logRate = 10

// LogTo returns an observer that writes log records with stable keys; docs/observability.md
// lists them. Dead letters and failing loops are logged at error; retries, pauses, lost leases and
// conflicts at warn; published messages (one record for each topic and type of a batch),
// skipped duplicates and clean-ups at info; the rest at debug.
//
// At most 10 records per second about published messages are at info, the others at debug;
// the next one at info gives the number of their messages as not_shown.
func LogTo(l *slog.Logger) Observer { return &logObserver{l: l} }

type logObserver struct {
	l *slog.Logger

	mu       sync.Mutex
	second   time.Time // the beginning of the one for which records are counted
	records  int
	notShown int // messages
}

func (o *logObserver) Start(ctx context.Context, _ Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (o *logObserver) Observe(ctx context.Context, e Event) {
	level := logLevel(e)
	notShown := 0
	if e.Op == OpPublish && e.Err == nil {
		level, notShown = o.publishLevel(e.Count)
	}
	if !o.l.Enabled(ctx, level) {
		return
	}
	attrs := logAttrs(e)
	if notShown > 0 {
		attrs = append(attrs, slog.Int("not_shown", notShown))
	}
	o.l.LogAttrs(ctx, level, string(e.Op), attrs...)
}

// publishLevel returns the level for a record about the given number of published messages, and how
// many messages were not logged at info since the last such record.
func (o *logObserver) publishLevel(messages int) (level slog.Level, notShown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.Sub(o.second) >= time.Second {
		o.second, o.records = now, 0
	}
	if o.records == logRate {
		o.notShown += messages
		return slog.LevelDebug, 0
	}
	o.records++
	notShown, o.notShown = o.notShown, 0
	return slog.LevelInfo, notShown
}

func logLevel(e Event) slog.Level {
	bad := e.Err != nil
	switch e.Op {
	case OpDead, OpFailed:
		return slog.LevelError
	case OpLoop, OpPublish:
		return either(bad, slog.LevelError, slog.LevelDebug)
	case OpRetry, OpPause, OpLeaseLost, OpOvertaken, OpDedupExpired, OpConflict, OpUnleased, OpSkip:
		return slog.LevelWarn
	case OpBackPressure, OpCleanup, OpRequeue:
		return either(bad, slog.LevelWarn, slog.LevelInfo)
	case OpSettle, OpServe, OpBusy:
		return either(bad, slog.LevelWarn, slog.LevelDebug)
	case OpDuplicate, OpIgnore, OpLateReply, OpResume, OpLanes, OpAddPartitions, OpDropPartitions:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func either(bad bool, level, otherwise slog.Level) slog.Level {
	if bad {
		return level
	}
	return otherwise
}

func logAttrs(e Event) []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("name", e.Name)
	text("consumer", e.Consumer)
	text("loop", e.Loop)
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
	text("operation", e.Operation)
	text("status", e.Status)
	text("reason", string(e.Reason))
	if e.Err != nil {
		attrs = append(attrs, slog.String("kind", waybill.KindOf(e.Err).String()), slog.String("error", ErrorText(e.Err)))
	}
	return attrs
}
