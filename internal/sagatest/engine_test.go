package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

// inKit runs a test with a saga in a kit.
func inKit(t *testing.T, make func(t *testing.T, store saga.Store[tx]) *orders, test func(t *testing.T, k *waybilltest.Kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := waybilltest.New(t)
		consume(k, make(t, k.Store))
		test(t, k)
	})
}

func rules(t *testing.T, store saga.Store[tx]) *orders { return withRules(t, store, saga.Config{}) }

// want checks where an instance stands, and what was done.
func want(t *testing.T, k *waybilltest.Kit, status saga.Status, did ...string) saga.Instance {
	t.Helper()
	in, err := k.Store.Saga(t.Context(), idOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	var data order
	if err := json.Unmarshal(in.Data, &data); err != nil {
		t.Fatal(err)
	}
	if in.Status != status || !slices.Equal(data.Did, did) {
		t.Errorf("the instance is %s, did %q, log:\n%s\nwant %s, %q", in.Status, data.Did, history(t, k.Store, "a"), status, did)
	}
	return in
}

// handle handles a message as a consumer does, in a transaction that also records it.
func handle(s *orders, store *memstore.Store, m waybill.Message) error {
	m.Complete()
	return waybilltest.Handle(store, "orders", s.Handle)(context.Background(), &m)
}

// TestCheck runs one message of each kind under every crash, every lost connection and a
// duplicate.
func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare []waybill.Message
		message waybill.Message
	}{
		{"begins", nil, message("placed", "a")},
		{"ends, and cancels a timeout", []waybill.Message{message("placed", "a")}, message("paid", "a")},
		{"changes", []waybill.Message{message("placed", "a")}, message("changed", "a")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			waybilltest.CheckOnce(t, func(f *waybilltest.Faults) waybilltest.Subject {
				store := f.MemStore()
				s := rules(t, store)
				for _, m := range tt.prepare {
					if err := handle(s, store, m); err != nil {
						t.Fatal(err)
					}
				}
				return waybilltest.Subject{
					Deliver: waybilltest.Handle(store, "orders", s.Handle),
					Message: tt.message,
					Effect:  func() any { return stored(t, store) },
				}
			})
		})
	}
}

// stored is all that a store has of the order a.
func stored(t *testing.T, store *memstore.Store) string {
	t.Helper()
	in, err := store.Saga(t.Context(), idOf("a"))
	if err != nil && !errors.Is(err, waybill.ErrNotFound) {
		t.Fatal(err)
	}
	stats, err := store.OutboxStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s in %q, %s, %d timeouts\n%s", in.Status, in.State, in.Data, len(in.Progress.Timeouts), history(t, store, "a"))
	for _, s := range stats {
		text += fmt.Sprintf("%s: %d %s\n", s.Topic, s.Count, s.Status)
	}
	return text
}

// TestConflicts: many messages for one instance at once are all applied, under a transaction that
// another one overtakes.
func TestConflicts(t *testing.T) {
	t.Parallel()
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		return withRules(t, &overtaken{Store: store, from: 1, left: 3}, saga.Config{})
	}, func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		k.Enqueue(waybill.Message{ID: "x", Type: "changed", Topic: "orders", Subject: "a"}, waybill.Message{ID: "y", Type: "changed", Topic: "orders", Subject: "a"})
		k.Advance(10 * time.Minute)
		in, err := k.Store.Saga(t.Context(), idOf("a"))
		if err != nil {
			t.Fatal(err)
		}
		var data order
		if err := json.Unmarshal(in.Data, &data); err != nil {
			t.Fatal(err)
		}
		slices.Sort(data.Did)
		if want := []string{"bill", "change x", "change y"}; !slices.Equal(data.Did, want) {
			t.Errorf("done was %q, want %q", data.Did, want)
		}
		if letters := k.DeadLetters(); len(letters) != 0 {
			t.Errorf("DeadLetters() = %+v, want none", letters)
		}
	})
}

// overtaken is a store in which another transaction is first, for the first few writes.
type overtaken struct {
	saga.Store[tx]
	from int64 // version of the instance

	mu   sync.Mutex
	left int
}

func (o *overtaken) WriteSaga(ctx context.Context, tx tx, in *saga.Instance, e saga.Entry) (bool, error) {
	o.mu.Lock()
	first := o.left > 0 && in.Version >= o.from
	if first {
		o.left--
	}
	o.mu.Unlock()
	if first {
		return false, nil
	}
	return o.Store.WriteSaga(ctx, tx, in, e)
}

// TestConflict_Kind: the one that comes second gets a conflict, which nobody acknowledges.
func TestConflict_Kind(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := withRules(t, &overtaken{Store: store, left: 1}, saga.Config{})
	err := handle(s, store, message("placed", "a"))
	if !waybill.IsConflict(err) {
		t.Fatalf("Handle() = %v, want a conflict", err)
	}
	if got := stored(t, store); strings.Contains(got, "orders") {
		t.Errorf("the store has %s, want nothing", got)
	}
}

// TestEnded: a message that comes late, and a second start, do not begin the instance again.
func TestEnded(t *testing.T) {
	t.Parallel()
	seen := new(observer)
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		return withRules(t, store, saga.Config{Observer: seen})
	},
		func(t *testing.T, k *waybilltest.Kit) {
			k.Enqueue(message("placed", "a"))
			k.Enqueue(message("paid", "a"))
			again := message("placed", "a")
			again.ID = "again"
			k.Enqueue(again)
			want(t, k, saga.Completed, "bill", "ship")
			seen.want(t, observe.OpIgnore, "ended", "again")
			k.Advance(2 * time.Hour)
			if own := k.Messages(own); len(own) != 0 {
				t.Errorf("%d timeouts have come after the end, want none: it cancels them", len(own))
			}
		})
}

// observer notes what sagas tell.
type observer struct {
	mu     sync.Mutex
	events []string
}

func (o *observer) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (o *observer) Observe(_ context.Context, e observe.Event) {
	if e.Op != observe.OpSaga && e.Op != observe.OpIgnore {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprint(e.Op, e.Name, e.Status, e.IDs))
}

func (o *observer) want(t *testing.T, op observe.Op, status, id string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if want := fmt.Sprint(op, "orders", status, []string{id}); !slices.Contains(o.events, want) {
		t.Errorf("the observer received %q, want %q", o.events, want)
	}
}

// TestMissing: what becomes of messages without a key, or without an instance.
func TestMissing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		message waybill.Message
		reason  waybill.Reason // "" for none
	}{
		{"no key", message("placed", ""), waybill.ReasonMalformed},
		{"a long key", message("placed", "long"), waybill.ReasonMalformed},
		{"no instance", message("paid", "a"), waybill.ReasonRejected},
		{"no instance, ignored", message("changed", "a"), ""},
		{"an unknown type", message("lost", "a"), waybill.ReasonUnknownType},
		{"a step by somebody", waybill.Message{ID: "s", Type: "waybill.saga.step", Topic: own}, waybill.ReasonMalformed},
		{"a step of another saga", waybill.Message{ID: "s", Type: "waybill.saga.step", Topic: own, Payload: []byte(`{"tenant":"default","saga":"other","key":"a","turn":1}`)}, waybill.ReasonUnknownType},
		{"a step of another tenant", waybill.Message{ID: "s", Type: "waybill.saga.step", Topic: own, Payload: []byte(`{"tenant":"b","saga":"orders","key":"a","turn":1}`)}, waybill.ReasonMalformed},
		{"a step of no instance", waybill.Message{ID: "s", Type: "waybill.saga.step", Topic: own, Payload: []byte(`{"tenant":"default","saga":"orders","key":"a","turn":1}`)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inKit(t, rules, func(t *testing.T, k *waybilltest.Kit) {
				k.Enqueue(tt.message)
				var reasons []waybill.Reason
				for _, l := range k.DeadLetters() {
					reasons = append(reasons, l.Reason)
				}
				if tt.reason == "" && len(reasons) != 0 || tt.reason != "" && !slices.Equal(reasons, []waybill.Reason{tt.reason}) {
					t.Errorf("dead letters have the reasons %q, want %q", reasons, tt.reason)
				}
			})
		})
	}
}

// TestStates: a message that comes early is tried again; a rule that leads elsewhere than it says
// is refused.
func TestStates(t *testing.T) {
	t.Parallel()
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		s := newSaga(t, store, saga.Config{})
		lead := func(to string) saga.Do[tx, order] {
			return func(_ context.Context, c *change, _ *waybill.Message) error {
				do(c, to)
				c.Become(to)
				return nil
			}
		}
		s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: lead("placed")})
		s.On("packed", rule{Key: bySubject, From: []string{"placed"}, To: []string{"packed"}, Do: lead("packed")})
		s.On("sent", rule{Key: bySubject, From: []string{"packed"}, To: []string{"sent"}, Do: lead("sent")})
		s.On("wrong", rule{Key: bySubject, To: []string{"sent"}, Do: lead("nowhere")})
		return s
	}, func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		k.Enqueue(message("sent", "a"))
		k.Enqueue(message("packed", "a"))
		k.Advance(time.Minute)
		want(t, k, saga.Running, "placed", "packed", "sent")
		k.Enqueue(message("wrong", "a"))
		want(t, k, saga.Running, "placed", "packed", "sent")
		if letters := k.DeadLetters(); len(letters) != 1 || letters[0].Message.ID != "wrong a" {
			t.Errorf("DeadLetters() = %+v, want the wrong one", letters)
		}
	})
}

// TestTimeout_Moved: a timeout that is set again comes once, at the later time.
func TestTimeout_Moved(t *testing.T) {
	t.Parallel()
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		s := newSaga(t, store, saga.Config{})
		s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
			return c.Timeout(ctx, "idle", time.Hour)
		}})
		s.OnTimeout("idle", rule{Do: func(_ context.Context, c *change, _ *waybill.Message) error {
			do(c, "idle at "+time.Now().UTC().Format(time.TimeOnly)) // of the bubble, which begins at midnight
			return nil
		}})
		return s
	}, func(t *testing.T, k *waybilltest.Kit) {
		began := time.Now()
		k.Enqueue(message("placed", "a"))
		k.Advance(50 * time.Minute)
		again := message("placed", "a")
		again.ID = "again"
		k.Enqueue(again)
		k.Advance(50 * time.Minute)
		if did := k.Messages("effects"); len(did) != 0 {
			t.Fatalf("%v was done %v after the start, want nothing", did[0].Type, time.Since(began))
		}
		k.Advance(50 * time.Minute)
		if did := k.Messages("effects"); len(did) != 1 {
			t.Errorf("%d timeouts came, want 1", len(did))
		}
		if own := k.Messages(own); len(own) != 1 {
			t.Errorf("%d messages came for the timeout, want 1: it was moved", len(own))
		}
	})
}

// TestStale: a timeout and a step that are not the latest do nothing, and are counted.
func TestStale(t *testing.T) {
	t.Parallel()
	seen := new(observer)
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		return withSteps(t, store, saga.Config{Observer: seen}, well)
	}, func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		in := want(t, k, saga.Running, "place", "reserve", "charge")
		for turn := range in.Progress.Turn + 2 { // the step that waits is one of them
			id := fmt.Sprint("turn-", turn)
			k.Enqueue(waybill.Message{ID: id, Type: "waybill.saga.step", Topic: own, Payload: fmt.Appendf(nil, `{"tenant":"default","saga":"orders","key":"a","turn":%d}`, turn)})
			seen.want(t, observe.OpIgnore, "stale", id)
		}
		k.Enqueue(waybill.Message{ID: "early", Type: "waybill.saga.timeout", Topic: own, Payload: []byte(`{"tenant":"default","saga":"orders","key":"a","timeout":"step charge"}`)})
		seen.want(t, observe.OpIgnore, "stale", "early")
		want(t, k, saga.Running, "place", "reserve", "charge")
	})
}

// TestStale_NotWaiting: while a step waits for its next attempt, an answer to it, and steps that
// have not the turn, do nothing.
func TestStale_NotWaiting(t *testing.T) {
	t.Parallel()
	seen, closed := new(observer), true
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		s := newSaga(t, store, saga.Config{Observer: seen})
		s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(context.Context, *change, *waybill.Message) error { return nil }})
		s.On("answered", rule{Key: bySubject, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
			_, err := c.Done(ctx, "ask")
			return err
		}})
		s.Steps(step{Name: "ask", Wait: true, Execute: func(_ context.Context, c *change) error {
			if closed {
				return waybill.RetryAfter(time.Hour, errors.New("nobody is there"))
			}
			do(c, "ask")
			return nil
		}})
		return s
	}, func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		closed = false
		for _, turn := range []int{0, 2} { // 1 is tried again in an hour
			id := fmt.Sprint("turn-", turn)
			k.Enqueue(waybill.Message{ID: id, Type: "waybill.saga.step", Topic: own, Payload: fmt.Appendf(nil, `{"tenant":"default","saga":"orders","key":"a","turn":%d}`, turn)})
			seen.want(t, observe.OpIgnore, "stale", id)
		}
		k.Enqueue(message("answered", "a"))
		seen.want(t, observe.OpIgnore, "stale", "answered a")
		want(t, k, saga.Running)
		k.Advance(2 * time.Hour)
		again := message("answered", "a")
		again.ID = "again"
		k.Enqueue(again)
		want(t, k, saga.Completed, "ask")
	})
}

// TestSteps_NoAnswer: a step that is not answered in time is undone too; one that was refused is
// not. An answer that comes too late changes nothing.
func TestSteps_NoAnswer(t *testing.T) {
	t.Parallel()
	steps := func(t *testing.T, store saga.Store[tx]) *orders { return withSteps(t, store, saga.Config{}, well) }
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		inKit(t, steps, func(t *testing.T, k *waybilltest.Kit) {
			k.Enqueue(message("placed", "a"))
			k.Advance(2 * time.Hour)
			k.Enqueue(message("charged", "a"))
			in := want(t, k, saga.Compensated, "place", "reserve", "charge", "undo charge", "undo reserve", "end compensated")
			if in.Error != "step charge: no answer within 1h0m0s" {
				t.Errorf("the error is %q", in.Error)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		inKit(t, steps, func(t *testing.T, k *waybilltest.Kit) {
			k.Enqueue(message("placed", "a"))
			k.Enqueue(message("refused", "a"))
			in := want(t, k, saga.Compensated, "place", "reserve", "charge", "undo reserve", "end compensated")
			if in.Error != "no money" {
				t.Errorf("the error is %q", in.Error)
			}
		})
	})
}

// TestSteps_Exhausted: a step that fails for now is tried again, and turns the instance back when
// its retries are used up.
func TestSteps_Exhausted(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{2, 3} { // of three attempts
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			runs := 0
			inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
				return withSteps(t, store, saga.Config{}, func() error {
					if runs++; runs <= failures {
						return errors.New("the door is closed")
					}
					return nil
				})
			}, func(t *testing.T, k *waybilltest.Kit) {
				k.Enqueue(message("placed", "a"))
				k.Enqueue(message("charged", "a"))
				k.Advance(time.Minute)
				if failures < 3 {
					want(t, k, saga.Completed, "place", "reserve", "charge", "ship", "end completed")
				} else {
					want(t, k, saga.Compensated, "place", "reserve", "charge", "undo charge", "undo reserve", "end compensated")
				}
			})
		})
	}
}

// stuckOnce is a saga whose only step can't be undone as long as broken is set.
func stuckOnce(broken *bool) func(t *testing.T, store saga.Store[tx]) *orders {
	return func(t *testing.T, store saga.Store[tx]) *orders {
		s := newSaga(t, store, saga.Config{})
		s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(context.Context, *change, *waybill.Message) error { return nil }})
		s.On("cancelled", rule{Key: bySubject, Do: func(_ context.Context, c *change, _ *waybill.Message) error {
			c.Compensate(errors.New("the customer has changed her mind"))
			return nil
		}})
		s.Steps(
			step{Name: "charge", Execute: doing("charge"), Compensate: func(_ context.Context, c *change) error {
				do(c, "refund")
				if *broken {
					return errors.New("the bank is closed")
				}
				return nil
			}},
			step{Name: "wait", Wait: true, Execute: doing("wait")},
		)
		return s
	}
}

// TestStuck: what can't be undone waits for a person, who lets it be tried again.
func TestStuck(t *testing.T) {
	t.Parallel()
	broken := true
	inKit(t, stuckOnce(&broken), func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		k.Enqueue(message("cancelled", "a"))
		k.Advance(time.Minute)
		if in := want(t, k, saga.Stuck, "charge", "wait"); in.Error != "the bank is closed" {
			t.Errorf("the error is %q", in.Error)
		}
		if letters := k.DeadLetters(); len(letters) != 0 {
			t.Errorf("DeadLetters() = %+v, want none", letters)
		}
		op := operator(t, k)
		if err := op.Compensate(t.Context(), idOf("a"), deadletter.Act{By: "ann"}); !errors.Is(err, saga.ErrNotRunning) {
			t.Errorf("Compensate() = %v, want ErrNotRunning", err)
		}
		broken = false
		if err := op.Resume(t.Context(), idOf("a"), deadletter.Act{By: "ann", Why: "the bank is open"}); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Minute) // the relay polls
		want(t, k, saga.Compensated, "charge", "wait", "refund")
		if err := op.Resume(t.Context(), idOf("a"), deadletter.Act{By: "ann"}); !errors.Is(err, saga.ErrNotStuck) {
			t.Errorf("Resume() = %v, want ErrNotStuck", err)
		}
		audit, err := k.Store.AuditLog(t.Context(), deadletter.AuditFilter{Action: saga.ActResume})
		if err != nil || len(audit) != 1 || audit[0].By != "ann" || audit[0].Detail != "orders a" {
			t.Errorf("AuditLog() = %+v, %v; want one entry by ann", audit, err)
		}
	})
}

// TestOperator_Compensate undoes a step that waits too.
func TestOperator_Compensate(t *testing.T) {
	t.Parallel()
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		return withSteps(t, store, saga.Config{}, well)
	}, func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		if err := operator(t, k).Compensate(t.Context(), idOf("a"), deadletter.Act{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Minute) // the relay polls
		want(t, k, saga.Compensated, "place", "reserve", "charge", "undo charge", "undo reserve", "end compensated")
	})
}

func operator(t *testing.T, k *waybilltest.Kit) *saga.Operator {
	t.Helper()
	op, err := saga.NewOperator(k.Store, saga.OperatorConfig{Source: "ops", Observer: observe.Observers()})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// TestTombstone: an instance that has ended is there as long as the inbox's memory.
func TestTombstone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := rules(t, store)
		for _, m := range []waybill.Message{message("placed", "a"), message("placed", "b"), message("paid", "a")} {
			if err := handle(s, store, m); err != nil {
				t.Fatal(err)
			}
		}
		late := message("placed", "a")
		if err := store.ForgetRecord(inbox.KeyOf("orders", &late)); err != nil {
			t.Fatal(err)
		}
		before := stored(t, store)
		if err := handle(s, store, late); err != nil {
			t.Fatal(err)
		}
		if got := stored(t, store); got != before {
			t.Errorf("after a start that comes late there is\n%s\nwant\n%s", got, before)
		}
	})
}

// TestMux: a saga next to another handler of one consumer.
func TestMux(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := rules(t, store)
	mux := consumer.NewMux[tx]()
	for _, typ := range s.Types() {
		mux.Handle(typ, s.Handle)
	}
	mux.Ignore("other")
	for _, typ := range []string{"placed", "other"} {
		m := message(typ, "a")
		if err := waybilltest.Handle(store, "orders", mux.Serve)(t.Context(), &m); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.Saga(t.Context(), idOf("a")); err != nil {
		t.Errorf("Saga() = %v", err)
	}
}
