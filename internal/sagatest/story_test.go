package sagatest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

type (
	tx     = *memstore.Tx
	orders = saga.Saga[tx, order]
	change = saga.Context[tx, order]
	rule   = saga.Rule[tx, order]
	step   = saga.Step[tx, order]
)

// order is the data of the sagas here.
type order struct {
	Did []string `json:"did"` // in their order
}

const own = "orders-own" // topic

// bySubject correlates.
func bySubject(m *waybill.Message) (string, error) {
	if m.Subject == "long" {
		return strings.Repeat("k", waybill.MaxKeyLen+1), nil
	}
	return m.Subject, nil
}

func idOf(key string) saga.ID {
	return saga.ID{Tenant: waybill.DefaultTenant, Saga: "orders", Key: key}
}

func message(typ, order string) waybill.Message {
	return waybill.Message{ID: typ + " " + order, Type: typ, Topic: "orders", Subject: order}
}

// newSaga returns a saga of the name orders.
func newSaga(t *testing.T, store saga.Store[tx], cfg saga.Config) *orders {
	t.Helper()
	cfg.Name, cfg.Source, cfg.Topic, cfg.Node = "orders", "shop", own, "node-1"
	if cfg.Observer == nil {
		cfg.Observer = observe.Observers()
	}
	s, err := saga.New[tx, order](store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// consume lets the kit run a saga.
func consume(k *waybilltest.Kit, s *orders) {
	k.Consume(consumer.Subscription{Group: "orders", Topics: []string{"orders", own}}, s.Handle, consumer.Config{
		GiveUp: saga.GivesUp, Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: time.Second, DisableJitter: true},
	})
}

// do notes what was done, in the data and by a message.
func do(c *change, what string) {
	c.Data.Did = append(c.Data.Did, what)
	c.Publish("effects", waybill.Message{Type: what})
}

// doing is do as an Execute or Compensate.
func doing(what string) func(context.Context, *change) error {
	return func(_ context.Context, c *change) error {
		do(c, what)
		return nil
	}
}

// withRules is a saga whose orders are paid, or cancelled after an hour.
func withRules(t *testing.T, store saga.Store[tx], cfg saga.Config) *orders {
	s := newSaga(t, store, cfg)
	s.On("placed", rule{Key: bySubject, Missing: saga.Start, To: []string{"unpaid"}, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
		if !c.New {
			return nil
		}
		do(c, "bill")
		c.Become("unpaid")
		return c.Timeout(ctx, "payment", time.Hour)
	}})
	s.On("paid", rule{Key: bySubject, From: []string{"unpaid"}, To: []string{saga.End}, Do: func(_ context.Context, c *change, _ *waybill.Message) error {
		do(c, "ship")
		c.Complete()
		return nil
	}})
	s.On("changed", rule{Key: bySubject, Missing: saga.Ignore, Do: func(_ context.Context, c *change, m *waybill.Message) error {
		do(c, "change "+m.ID)
		return nil
	}})
	s.OnTimeout("payment", rule{From: []string{"unpaid"}, To: []string{saga.End}, Do: func(_ context.Context, c *change, _ *waybill.Message) error {
		do(c, "cancel")
		c.Complete()
		return nil
	}})
	return s
}

// withSteps is a saga of three steps, the second of which waits, with an error for the third.
func withSteps(t *testing.T, store saga.Store[tx], cfg saga.Config, third func() error) *orders {
	s := newSaga(t, store, cfg)
	s.On("placed", rule{Key: bySubject, Missing: saga.Start, Do: func(_ context.Context, c *change, _ *waybill.Message) error {
		do(c, "place")
		return nil
	}})
	s.On("charged", rule{Key: bySubject, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
		_, err := c.Done(ctx, "charge")
		return err
	}})
	s.On("refused", rule{Key: bySubject, Do: func(ctx context.Context, c *change, _ *waybill.Message) error {
		_, err := c.Fail(ctx, "charge", errors.New("no money"))
		return err
	}})
	s.Steps(
		step{Name: "reserve", Execute: doing("reserve"), Compensate: doing("undo reserve")},
		step{Name: "charge", Wait: true, Timeout: time.Hour, Execute: doing("charge"), Compensate: doing("undo charge")},
		step{Name: "ship", Execute: func(ctx context.Context, c *change) error {
			do(c, "ship")
			return third()
		}},
	)
	s.OnEnd(func(_ context.Context, c *change) error {
		do(c, "end "+string(c.Status()))
		return nil
	})
	return s
}

func well() error { return nil }

func refused() error {
	return waybill.PermanentError(waybill.ReasonRejected, errors.New("nobody lives there"))
}

// effect is what there is of an order, and what was published.
func effect(t *testing.T, k *waybilltest.Kit, keys ...string) string {
	t.Helper()
	var b strings.Builder
	for _, key := range keys {
		in, err := k.Store.Saga(t.Context(), idOf(key))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s is %s in %q with %s %s, %d timeouts\n", key, in.Status, in.State, in.Data, in.Error, len(in.Progress.Timeouts))
		fmt.Fprint(&b, history(t, k.Store, key))
	}
	for _, m := range k.Messages("effects") {
		fmt.Fprintf(&b, "%s %s, ", m.Key, m.Type)
	}
	return b.String()
}

// history is the log of an order.
func history(t *testing.T, store saga.Inspector, key string) string {
	t.Helper()
	entries, err := store.SagaLog(t.Context(), idOf(key), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "  %d %s %s: %q to %q, %s by %s\n", e.Version, e.MessageType, e.Note, e.From, e.To, e.Status, e.Node)
	}
	return b.String()
}

// story is what happens to a saga, and the keys of the orders that it is about.
type story struct {
	saga func(t *testing.T, store saga.Store[tx]) *orders
	tell func(k *waybilltest.Kit)
	keys []string
	want string // part of the effect
}

var stories = map[string]story{
	"rules with a timeout": {
		saga: func(t *testing.T, store saga.Store[tx]) *orders { return withRules(t, store, saga.Config{}) },
		tell: func(k *waybilltest.Kit) {
			k.Enqueue(message("placed", "a"))
			k.Enqueue(message("placed", "b"))
			k.Enqueue(message("paid", "a"))
			k.Advance(2 * time.Hour)
		},
		keys: []string{"a", "b"},
		want: "a bill, b bill, a ship, b cancel, ",
	},
	"steps that succeed": {
		saga: func(t *testing.T, store saga.Store[tx]) *orders { return withSteps(t, store, saga.Config{}, well) },
		tell: func(k *waybilltest.Kit) {
			k.Enqueue(message("placed", "a"))
			k.Enqueue(message("charged", "a"))
			k.Advance(2 * time.Hour)
		},
		keys: []string{"a"},
		want: "a place, a reserve, a charge, a ship, a end completed, ",
	},
	"a third step that fails": {
		saga: func(t *testing.T, store saga.Store[tx]) *orders { return withSteps(t, store, saga.Config{}, refused) },
		tell: func(k *waybilltest.Kit) {
			k.Enqueue(message("placed", "a"))
			k.Enqueue(message("charged", "a"))
			k.Advance(2 * time.Hour)
		},
		keys: []string{"a"},
		want: "a place, a reserve, a charge, a undo charge, a undo reserve, a end compensated, ",
	},
}

// TestStories_Crashes: whatever step the process ends before, the effect is the same.
func TestStories_Crashes(t *testing.T) {
	t.Parallel()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, steps := "", 0
			synctest.Test(t, func(t *testing.T) {
				k := waybilltest.New(t)
				consume(k, s.saga(t, k.Store))
				s.tell(k)
				want, steps = effect(t, k, s.keys...), k.Steps()
			})
			if !strings.HasSuffix(want, s.want) {
				t.Fatalf("undisturbed, the effect is\n%s\nwant at its end\n%s", want, s.want)
			}
			if steps < 10 {
				t.Fatalf("the story has %d steps, want more", steps)
			}
			for n := range steps {
				synctest.Test(t, func(t *testing.T) {
					k := waybilltest.New(t)
					consume(k, s.saga(t, k.Store))
					k.CrashAfter(n)
					s.tell(k)
					if got := effect(t, k, s.keys...); got != want {
						t.Fatalf("after a crash before step %d the effect is\n%s\nwant\n%s", n, got, want)
					}
				})
			}
		})
	}
}

// TestStories_Duplicates: what comes again changes nothing, even when the inbox has forgotten it.
func TestStories_Duplicates(t *testing.T) {
	t.Parallel()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := waybilltest.New(t)
				consume(k, s.saga(t, k.Store))
				s.tell(k)
				want := effect(t, k, s.keys...)
				for _, m := range append(k.Messages("orders"), k.Messages(own)...) {
					k.Redeliver(m.ID)
					if err := k.Store.ForgetRecord(inbox.KeyOf("orders", &m)); err != nil {
						t.Fatal(err)
					}
					k.Redeliver(m.ID)
					if got := effect(t, k, s.keys...); got != want {
						t.Fatalf("after %s came again the effect is\n%s\nwant\n%s", m.ID, got, want)
					}
				}
				if letters := k.DeadLetters(); len(letters) != 0 {
					t.Errorf("DeadLetters() = %+v, want none", letters)
				}
			})
		})
	}
}
