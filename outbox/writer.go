package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/report"
	"github.com/waybill-go/waybill/observe"
)

// Config configures a [Writer].
type Config struct {
	// Source names the service in messages that name no source themselves. Ids are unique for each
	// source and tenant. At most [waybill.MaxSourceLen] bytes. Required.
	Source string

	// Unique remembers the ids of enqueued messages, with source and tenant, for the outbox
	// retention, so that enqueueing an id that was already published stores nothing either. It costs a row per
	// message. Optional.
	Unique bool

	// Observer receives the writer's events. Optional; the default logs to slog.Default.
	Observer observe.Observer
}

// Writer enqueues messages. It is safe for concurrent use.
type Writer[Tx any] struct {
	store Store[Tx]
	cfg   Config
}

// NewWriter returns a writer for the transactions that store takes. The error is an
// [*waybill.InvalidError] that names what is missing or wrong.
func NewWriter[Tx any](store Store[Tx], cfg Config) (*Writer[Tx], error) {
	if store == nil {
		return nil, &waybill.InvalidError{Field: "store", Reason: "is required"}
	}
	if cfg.Source == "" {
		return nil, &waybill.InvalidError{Field: "outbox.Config.Source", Reason: "is required"}
	}
	if len(cfg.Source) > waybill.MaxSourceLen {
		return nil, &waybill.InvalidError{Field: "outbox.Config.Source", Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(cfg.Source), waybill.MaxSourceLen)}
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Writer[Tx]{store: store, cfg: cfg}, nil
}

// Result says what an enqueue did, message by message.
type Result struct {
	IDs []string // the ids, given or generated
	New []bool   // false: the id existed already and nothing was stored
}

// Duplicates returns how many messages were not stored because their id existed already.
func (r Result) Duplicates() int {
	n := 0
	for _, isNew := range r.New {
		if !isNew {
			n++
		}
	}
	return n
}

// Enqueue stores msgs in tx, in their order, with one statement. They are published after tx has
// committed, and discarded if it rolls back. If tx is nil, nothing is stored and the error is an
// [*waybill.InvalidError] that names it.
//
// All messages are checked before any is stored; the error is then an
// [*waybill.InvalidError]. A message whose [Identity] is already pending, or, with Config.Unique,
// was enqueued within the outbox retention, stores nothing, is no error, and is marked in the
// result. Missing fields are filled in: from the message being handled under ctx (see
// [waybill.WithMessage]), from Config, and with defaults. msgs themselves are not changed. After
// another error tx may be unusable; the caller rolls it back.
//
// Enqueue does not know when tx commits. A relay in another process finds the messages by
// itself; for one in this process [Writer.Wake] may be called after the commit.
func (w *Writer[Tx]) Enqueue(ctx context.Context, tx Tx, msgs ...waybill.Message) (Result, error) {
	began := time.Now()
	var isNew []bool
	inner, ready, end, err := w.prepare(ctx, msgs)
	if err == nil {
		isNew, err = w.store.EnqueueMessages(inner, tx, ready)
	}
	end(err)
	return w.result(ctx, ready.Messages, isNew, err, time.Since(began))
}

// Prepare completes and checks msgs as [Writer.Enqueue] does, and stores nothing: a store may offer
// other ways to store them, such as pgstore.QueueEnqueue for a batch of statements.
// It needs no transaction. The error is an [*waybill.InvalidError].
func (w *Writer[Tx]) Prepare(ctx context.Context, msgs ...waybill.Message) (Prepared, error) {
	_, ready, end, err := w.prepare(ctx, msgs)
	end(err)
	if err != nil {
		return Prepared{}, err
	}
	ready.Fresh = false // without an answer to a commit it may be stored again
	stored := func(isNew []bool) Result { return w.stored(ctx, ready.Messages, isNew, 0) }
	return Prepared{Batch: ready, Stored: stored}, nil
}

// Prepared are messages that [Writer.Prepare] has completed and checked, for code that stores
// them. Store each value once. If a commit was not answered it may be stored again: messages that exist already
// are recognised.
type Prepared struct {
	Batch // not to be changed

	// Stored must be called once they are stored, with the result of EnqueueMessages of a [Store]. It
	// notifies the writer's observer, and returns the result.
	Stored func(isNew []bool) Result
}

// Wake notifies relays of this process that share the store that messages were committed.
func (w *Writer[Tx]) Wake() { w.store.WakeRelay() }

// prepare returns complete copies of msgs, which are valid if there is no error, with the
// observer's context for storing them. The caller calls end after that.
func (w *Writer[Tx]) prepare(ctx context.Context, msgs []waybill.Message) (_ context.Context, ready Batch, end func(error), err error) {
	cause := waybill.MessageFrom(ctx)
	ready = Batch{Messages: slices.Clone(msgs), Remember: w.cfg.Unique, Fresh: true}
	list := make([]*waybill.Message, len(msgs))
	for i := range ready.Messages {
		m := &ready.Messages[i]
		list[i] = m
		ready.Fresh = ready.Fresh && m.ID == ""
		if cause != nil {
			inherit(m, cause)
		}
		if m.Source == "" {
			m.Source = w.cfg.Source
		}
		m.Complete()
	}
	ctx, end = w.cfg.Observer.Start(ctx, observe.OpEnqueue, list...)
	for i, m := range list {
		if cause != nil && m.TraceParent == "" { // no observer that traces
			m.TraceParent, m.TraceState = cause.TraceParent, cause.TraceState
		}
		if err := m.Validate(); err != nil {
			return ctx, ready, end, fmt.Errorf("message %d of %d: %w", i+1, len(msgs), err)
		}
	}
	return ctx, ready, end, nil
}

// inherit fills m's empty fields as [waybill.Message.Derive] would, except the trace context, which
// is that of the handler.
func inherit(m *waybill.Message, cause *waybill.Message) {
	d := cause.Derive()
	for _, f := range [...]struct {
		field *string
		value string
	}{
		{&m.Tenant, d.Tenant},
		{&m.CorrelationID, d.CorrelationID},
		{&m.CausationID, d.CausationID},
	} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
}

func (w *Writer[Tx]) result(ctx context.Context, msgs []waybill.Message, isNew []bool, err error, took time.Duration) (Result, error) {
	if err != nil {
		w.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpEnqueue, Count: len(msgs), Duration: took, Err: err})
		return Result{}, err
	}
	return w.stored(ctx, msgs, isNew, took), nil
}

func (w *Writer[Tx]) stored(ctx context.Context, msgs []waybill.Message, isNew []bool, took time.Duration) Result {
	r := Result{IDs: make([]string, len(msgs)), New: isNew}
	for i := range msgs {
		r.IDs[i] = msgs[i].ID
	}
	w.observe(ctx, observe.Event{Op: observe.OpEnqueue, Duration: took}, msgs, isNew, true)
	w.observe(ctx, observe.Event{Op: observe.OpDuplicate}, msgs, isNew, false)
	return r
}

// observe reports the messages that are new, or those that are not.
func (w *Writer[Tx]) observe(ctx context.Context, e observe.Event, msgs []waybill.Message, isNew []bool, which bool) {
	list := make([]*waybill.Message, 0, len(msgs))
	for i := range msgs {
		if isNew[i] == which {
			list = append(list, &msgs[i])
		}
	}
	for _, e := range report.ByType(e, list) {
		w.cfg.Observer.Observe(ctx, e)
	}
}
