package waybilltest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

type handler = consumer.Handler[*memstore.Tx]

// bank is a fake of another system.
type bank struct {
	faults  *waybilltest.Faults
	charges int
}

func (b *bank) charge() error {
	if err := b.faults.Step("charge the card"); err != nil {
		return err
	}
	b.charges++
	return nil
}

// subject makes a subject of a handler whose effects are charges and the value "invoices".
func subject(make func(*bank, *memstore.Store) handler) func(*waybilltest.Faults) waybilltest.Subject {
	return func(f *waybilltest.Faults) waybilltest.Subject {
		store, b := f.MemStore(), &bank{faults: f}
		return waybilltest.Subject{
			Deliver: waybilltest.Handle(store, "billing", make(b, store)),
			Message: waybill.Message{ID: "o-17"},
			Effect:  func() any { return fmt.Sprintf("%d charges, invoices: %v", b.charges, store.Value("invoices")) },
		}
	}
}

// addInvoice is an effect in the transaction.
func addInvoice(tx *memstore.Tx) {
	n, _ := tx.Get("invoices").(int)
	tx.Set("invoices", n+1)
}

func TestCheck_TransactionOnly(t *testing.T) {
	t.Parallel()
	waybilltest.CheckOnce(t, subject(func(*bank, *memstore.Store) handler {
		return func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			addInvoice(tx)
			tx.Set("other", true)
			return nil
		}
	}))
}

func TestCheck_Enqueues(t *testing.T) {
	t.Parallel()
	waybilltest.CheckOnce(t, func(f *waybilltest.Faults) waybilltest.Subject {
		store := f.MemStore()
		w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		return waybilltest.Subject{
			Deliver: waybilltest.Handle(store, "billing", func(ctx context.Context, tx *memstore.Tx, m *waybill.Message) error {
				if waybill.MessageFrom(ctx) != m {
					return errors.New("the context does not carry the message")
				}
				_, err := w.Enqueue(ctx, tx, waybill.Message{Topic: "invoices"})
				return err
			}),
			Message: waybill.Message{ID: "o-17"},
			Effect:  func() any { return pending(t, store) },
		}
	})
}

// After a lost connection the whole transaction is lost, also for a handler that does not
// look at errors: it must not be blamed for half of it.
func TestCheck_IgnoresErrors(t *testing.T) {
	t.Parallel()
	waybilltest.CheckOnce(t, func(f *waybilltest.Faults) waybilltest.Subject {
		store := f.MemStore()
		w, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		return waybilltest.Subject{
			Deliver: waybilltest.Handle(store, "billing", func(ctx context.Context, tx *memstore.Tx, _ *waybill.Message) error {
				addInvoice(tx)
				_, _ = w.Enqueue(ctx, tx, waybill.Message{Topic: "invoices"})
				return nil
			}),
			Message: waybill.Message{ID: "o-17"},
			Effect: func() any {
				return fmt.Sprint(store.Value("invoices"), " invoices, messages: ", pending(t, store))
			},
		}
	})
}

func TestCheck_Finds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler func(*bank, *memstore.Store) handler
		want    string
	}{
		{"an effect outside of the transaction", func(b *bank, _ *memstore.Store) handler {
			return func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
				if err := b.charge(); err != nil {
					return err
				}
				addInvoice(tx)
				return nil
			}
		}, `
  delivery 1
    record the message in the inbox
    charge the card
    CRASH before: set "invoices"
  delivery 2, by a new process
    record the message in the inbox
    charge the card
    set "invoices"
    commit
    answer to commit
    acknowledge
  the effect is 2 charges, invoices: 1, want 1 charges, invoices: 1`},

		{"a mark that outlives the transaction", func(b *bank, _ *memstore.Store) handler {
			seen := make(map[string]bool)
			return func(_ context.Context, tx *memstore.Tx, m *waybill.Message) error {
				if seen[m.ID] {
					return nil
				}
				seen[m.ID] = true
				addInvoice(tx)
				return nil
			}
		}, `
  delivery 1
    record the message in the inbox
    CRASH before: set "invoices"
  delivery 2, by a new process
    record the message in the inbox
    commit
    answer to commit
    acknowledge
  the effect is 0 charges, invoices: <nil>, want 0 charges, invoices: 1`},

		{"an outage taken for the message's fault", func(b *bank, _ *memstore.Store) handler {
			return func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
				if err := b.charge(); err != nil {
					return waybill.PermanentError(waybill.ReasonRejected, err)
				}
				return nil
			}
		}, `
  delivery 1
    record the message in the inbox
    CONNECTION LOST before: charge the card
    permanent error: waybilltest: the connection was lost
    acknowledge
  the effect is 0 charges, invoices: <nil>, want 1 charges, invoices: <nil>`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantReport(t, waybilltest.Check(subject(tt.handler)), tt.want)
		})
	}
}

// A delivery that is acknowledged although it has failed, as by a loop that logs errors.
func TestCheck_AcknowledgesEarly(t *testing.T) {
	t.Parallel()
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		store := f.MemStore()
		handle := waybilltest.Handle(store, "billing", func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			addInvoice(tx)
			return nil
		})
		return waybilltest.Subject{
			Deliver: func(ctx context.Context, m *waybill.Message) error {
				_ = handle(ctx, m) // the bug
				return nil
			},
			Message: waybill.Message{ID: "o-17"},
			Effect:  func() any { return store.Value("invoices") },
		}
	})
	wantReport(t, err, `
  delivery 1
    CONNECTION LOST before: record the message in the inbox
    acknowledge
  the effect is <nil>, want 1`)
}

// A handler without an inbox: the duplicate alone shows it.
func TestCheck_NoInbox(t *testing.T) {
	t.Parallel()
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		b := &bank{faults: f}
		return waybilltest.Subject{
			Deliver: func(context.Context, *waybill.Message) error { return b.charge() },
			Effect:  func() any { return b.charges },
		}
	})
	wantReport(t, err, `
  delivery 1
    charge the card
    acknowledge
  delivery 2, a duplicate
    charge the card
    acknowledge
  the effect is 2, want 1`)
}

// An effect after the commit is lost by a crash in between.
func TestCheck_EffectAfterCommit(t *testing.T) {
	t.Parallel()
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		store, b := f.MemStore(), &bank{faults: f}
		handle := waybilltest.Handle(store, "billing", func(context.Context, *memstore.Tx, *waybill.Message) error { return nil })
		handled := false
		return waybilltest.Subject{
			Deliver: func(ctx context.Context, m *waybill.Message) error {
				if err := handle(ctx, m); err != nil || handled {
					return err
				}
				handled = true
				return b.charge()
			},
			Message: waybill.Message{ID: "o-17"},
			Effect:  func() any { return b.charges },
		}
	})
	if err == nil || !strings.Contains(err.Error(), "before: charge the card") || !strings.HasSuffix(err.Error(), "the effect is 0, want 1") {
		t.Errorf("Check() = %v, want a schedule in which the charge is lost", err)
	}
}

// A commit whose answer is lost has happened: the handler must not count on an error.
func TestCheck_AnswerLost(t *testing.T) {
	t.Parallel()
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		store, refunds := f.MemStore(), 0
		handle := waybilltest.Handle(store, "billing", func(_ context.Context, tx *memstore.Tx, _ *waybill.Message) error {
			addInvoice(tx)
			return nil
		})
		return waybilltest.Subject{
			Deliver: func(ctx context.Context, m *waybill.Message) error {
				err := handle(ctx, m)
				if err != nil && store.Value("invoices") != nil {
					refunds++ // the bug: it takes the error for a rollback
				}
				return err
			},
			Message: waybill.Message{ID: "o-17"},
			Effect:  func() any { return fmt.Sprint(store.Value("invoices"), " refunds: ", refunds) },
		}
	})
	if err == nil || !strings.Contains(err.Error(), "CRASH before: answer to commit") {
		t.Errorf("Check() = %v, want the schedule in which the answer to the commit is lost", err)
	}
}

func TestCheck_Refuses(t *testing.T) {
	t.Parallel()
	deliver := func(context.Context, *waybill.Message) error { return nil }
	effect := func() any { return 0 }
	n := 0
	tests := []struct {
		name    string
		subject waybilltest.Subject
		want    string
	}{
		{"no Deliver", waybilltest.Subject{Effect: effect}, "waybilltest.Subject.Deliver: is required"},
		{"no Effect", waybilltest.Subject{Deliver: deliver}, "waybilltest.Subject.Effect: is required"},
		{"no effect", waybilltest.Subject{Deliver: deliver, Effect: effect}, "Effect is 0 before the delivery and after it"},
		{"an error", waybilltest.Subject{Deliver: func(context.Context, *waybill.Message) error { return errors.New("no card") }, Effect: effect},
			"fails although nothing disturbs it: no card"},
		{"a panic", waybilltest.Subject{Deliver: func(context.Context, *waybill.Message) error { panic("no card") }, Effect: effect},
			"fails although nothing disturbs it: panic: no card"},
		{"never acknowledged", waybilltest.Subject{
			Deliver: func(context.Context, *waybill.Message) error {
				if n++; n > 1 {
					return errors.New("no card")
				}
				return nil
			},
			Effect: func() any { return n },
		}, "never acknowledged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := waybilltest.Check(func(*waybilltest.Faults) waybilltest.Subject { return tt.subject })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check() = %v, want %q", err, tt.want)
			}
		})
	}
}

// A handler that waits for what does not come is ended.
func TestCheck_Hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := waybilltest.Check(func(*waybilltest.Faults) waybilltest.Subject {
			return waybilltest.Subject{
				Deliver: func(ctx context.Context, _ *waybill.Message) error {
					<-ctx.Done()
					return ctx.Err()
				},
				Effect: func() any { return 0 },
			}
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Check() = %v, want that the time is up", err)
		}
	})
}

// A delivery with endless steps is reported, not run for ever.
func TestCheck_TooManySteps(t *testing.T) {
	t.Parallel()
	err := waybilltest.Check(func(f *waybilltest.Faults) waybilltest.Subject {
		done := false
		return waybilltest.Subject{
			Deliver: func(context.Context, *waybill.Message) error {
				for range 1001 {
					if err := f.Step("look"); err != nil {
						return err
					}
				}
				done = true
				return nil
			},
			Effect: func() any { return done },
		}
	})
	if err == nil || !strings.Contains(err.Error(), "more than 1000 steps") {
		t.Errorf("Check() = %v, want that there are too many steps", err)
	}
}

// pending counts messages about invoices in the outbox.
func pending(t *testing.T, store *memstore.Store) int {
	t.Helper()
	backlog, err := store.OutboxBacklog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range backlog {
		if s.Topic == "invoices" {
			n += int(s.Count)
		}
	}
	return n
}

func wantReport(t *testing.T, err error, schedule string) {
	t.Helper()
	want := "waybilltest: the effect is not once under this schedule:" + schedule
	if err == nil || err.Error() != want {
		t.Errorf("Check() = %v\nwant %s", err, want)
	}
}
