package outbox

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// tracer gives each message without a trace context one of its own.
type tracer struct {
	events []observe.Event
	ended  []error
}

func (tr *tracer) Start(ctx context.Context, op observe.Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	for _, m := range msgs {
		if op == observe.OpEnqueue && m.ID != "" && m.TraceParent == "" {
			m.TraceParent = "00-of-" + m.ID
		}
	}
	return context.WithValue(ctx, tracer{}.key(), true), func(err error) { tr.ended = append(tr.ended, err) }
}

func (tracer) key() any { return "tracer" }

func (tr *tracer) Observe(_ context.Context, e observe.Event) { tr.events = append(tr.events, e) }

// listStore stores messages in a list and knows one id already.
type listStore struct {
	stored    []waybill.Message
	cancelled []Identity
	conflicts int
	traced    bool
	fresh     bool // of the latest batch
}

func (s *listStore) EnqueueMessages(ctx context.Context, _ int, b Batch) ([]bool, error) {
	s.traced = ctx.Value(tracer{}.key()) != nil
	isNew := make([]bool, len(b.Messages))
	for i, m := range b.Messages {
		isNew[i] = m.ID != "known"
	}
	s.stored, s.fresh = append(s.stored, b.Messages...), b.Fresh
	return isNew, nil
}

func (s *listStore) Transact(ctx context.Context, fn func(context.Context, int) (Batch, error)) ([]bool, error) {
	b, err := fn(ctx, 0)
	if err != nil {
		return nil, err
	}
	if s.conflicts > 0 {
		s.conflicts--
		return nil, waybill.ConflictError(errors.New("deadlock"))
	}
	return s.EnqueueMessages(ctx, 0, b)
}

func (s *listStore) CancelEnqueued(_ context.Context, _ int, id Identity) (Cancellation, error) {
	s.cancelled = append(s.cancelled, id)
	return Cancellation{Removed: 1}, nil
}

func (s *listStore) WakeRelay() {}

func newTraced(t *testing.T) (*Writer[int], *listStore, *tracer) {
	t.Helper()
	s, tr := &listStore{}, &tracer{}
	w, err := NewWriter(s, Config{Source: "shop", Observer: tr})
	if err != nil {
		t.Fatal(err)
	}
	return w, s, tr
}

// TestStart_TraceContextIsStored: what an observer sets before the enqueue is on the row,
// before what the message being handled would hand down, and after the caller's own.
func TestStart_TraceContextIsStored(t *testing.T) {
	t.Parallel()
	w, s, tr := newTraced(t)
	ctx := waybill.WithMessage(t.Context(), &waybill.Message{ID: "cause", TraceParent: "00-cause"})
	given := []waybill.Message{{ID: "a", Topic: "orders"}, {ID: "b", Topic: "orders", TraceParent: "00-own"}}
	if _, err := w.Enqueue(ctx, 0, given...); err != nil {
		t.Fatal(err)
	}
	if s.stored[0].TraceParent != "00-of-a" || s.stored[1].TraceParent != "00-own" || s.stored[0].CausationID != "cause" {
		t.Errorf("stored %+v", s.stored)
	}
	if given[0].TraceParent != "" {
		t.Error("the caller's message was changed")
	}
	if !s.traced || len(tr.ended) != 1 || tr.ended[0] != nil {
		t.Errorf("the store ran under the observer's context: %v; ended with %v", s.traced, tr.ended)
	}
	if _, err := w.Enqueue(ctx, 0, waybill.Message{ID: "c"}); err == nil || len(tr.ended) != 2 || !errors.Is(tr.ended[1], err) {
		t.Errorf("Enqueue() = %v of a message without topic, ended with %v", err, tr.ended)
	}
}

// TestStart_InheritsWithoutTracer: without one the context is that of the message handled.
func TestStart_InheritsWithoutTracer(t *testing.T) {
	t.Parallel()
	s := &listStore{}
	w, err := NewWriter(s, Config{Source: "shop", Observer: observe.Observers()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := waybill.WithMessage(t.Context(), &waybill.Message{ID: "cause", TraceParent: "00-cause", TraceState: "a=b"})
	if _, err := w.Enqueue(ctx, 0, waybill.Message{ID: "a", Topic: "orders"}); err != nil || s.stored[0].TraceParent != "00-cause" || s.stored[0].TraceState != "a=b" {
		t.Errorf("Enqueue() = %v, stored %+v", err, s.stored)
	}
}

func TestObserve_ByTypeAndDuplicates(t *testing.T) {
	t.Parallel()
	w, s, tr := newTraced(t)
	s.conflicts = 1
	_, err := w.InTx(t.Context(), func(_ context.Context, _ int, rec *Recorder) error {
		rec.Record(waybill.Message{ID: "a", Topic: "orders"}, waybill.Message{ID: "known", Topic: "orders"}, waybill.Message{ID: "b", Topic: "bills"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tr.events {
		got = append(got, string(e.Op)+" "+e.Topic)
	}
	if want := []string{"repeat ", "enqueue orders", "enqueue bills", "duplicate orders"}; !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	if len(tr.ended) != 2 || !waybill.IsConflict(tr.ended[0]) || tr.ended[1] != nil {
		t.Errorf("the tries ended with %v", tr.ended)
	}
}

// TestWriter_Fresh: a store need not look for ids if the writer has made all of them.
func TestWriter_Fresh(t *testing.T) {
	t.Parallel()
	w, s, _ := newTraced(t)
	for _, tt := range []struct {
		ids  []string
		want bool
	}{{[]string{"", ""}, true}, {[]string{"", "mine"}, false}, {[]string{"mine", ""}, false}} {
		msgs := make([]waybill.Message, len(tt.ids))
		for i, id := range tt.ids {
			msgs[i] = waybill.Message{ID: id, Topic: "orders"}
		}
		if _, err := w.Enqueue(t.Context(), 0, msgs...); err != nil || s.fresh != tt.want {
			t.Errorf("ids %q: Enqueue() = %v, fresh %v, want %v", tt.ids, err, s.fresh, tt.want)
		}
		_, err := w.InTx(t.Context(), func(_ context.Context, _ int, rec *Recorder) error {
			rec.Record(msgs...)
			return nil
		})
		if err != nil || s.fresh != tt.want {
			t.Errorf("ids %q: InTx() = %v, fresh %v, want %v", tt.ids, err, s.fresh, tt.want)
		}
	}
}
