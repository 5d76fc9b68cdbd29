package consumer

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// boxStub is an inbox of one message, without transactions and without a clock.
type boxStub struct {
	contract.Inbox[int]
	past     contract.Attempts
	done     bool
	letter   *inbox.Letter
	conflict bool // another message has the key
}

func (b *boxStub) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx int) error) (inbox.Outcome, error) {
	switch {
	case b.conflict:
		return inbox.Conflict, nil
	case b.done:
		return inbox.Duplicate, nil
	}
	if err := fn(ctx, 0); err != nil {
		return inbox.Processed, err
	}
	if b.done = true; rec.Retried {
		b.past = contract.Attempts{}
	}
	return inbox.Processed, nil
}

func (b *boxStub) FailedAttempts(context.Context, inbox.Key) (contract.Attempts, error) {
	return b.past, nil
}

func (b *boxStub) SaveAttempt(_ context.Context, _ inbox.Key, a contract.FailedAttempt) error {
	b.past = contract.Attempts{Count: a.Count, Wait: a.Wait, Error: a.Error}
	return nil
}

func (b *boxStub) SaveStarts(_ context.Context, _ inbox.Key, starts int) error {
	b.past.Starts = starts
	return nil
}

func (b *boxStub) BuryMessage(_ context.Context, l inbox.Letter) (bool, error) {
	b.letter, b.past = &l, contract.Attempts{}
	return true, nil
}

// finalAttempts is a consumer of messages that all get a final attempt. Usual work fails with usual,
// and final attempts with the errors of last, one after the other, and then no more.
type finalAttempts struct {
	*Consumer[int]
	box    *boxStub
	usual  error
	last   []error
	worked int
	heard  []GivenUp
}

func newLastWords(t *testing.T, cfg Config) *finalAttempts {
	t.Helper()
	w := &finalAttempts{box: &boxStub{}}
	cfg.Observer = &noted{}
	cfg.GiveUp = func(*waybill.Message) bool { return true }
	cfg.Retry.DisableJitter = true
	c, err := New(gives{silentSubscriber{}}, billing, contract.Inbox[int](w.box), w.handle, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Consumer = c
	return w
}

type silentSubscriber struct{}

func (silentSubscriber) Subscribe(context.Context, int, func(contract.Delivery)) error { return nil }

func (w *finalAttempts) handle(ctx context.Context, _ int, _ *waybill.Message) error {
	g, ok := GivenUpFrom(ctx)
	if !ok {
		w.worked++
		return w.usual
	}
	w.heard = append(w.heard, g)
	if len(w.heard) <= len(w.last) {
		return w.last[len(w.heard)-1]
	}
	return nil
}

// deliver runs an attempt, when it is due.
func (w *finalAttempts) deliver(t *testing.T, redelivered bool) verdict {
	t.Helper()
	w.box.past.Wait = 0
	m := &waybill.Message{ID: "m", Topic: "orders", Source: "shop", Type: "placed"}
	w.handlers <- struct{}{}
	defer w.releaseHandler()
	return w.tryMessage(t.Context(), t.Context(), inbox.RecordOf("billing", m), m, redelivered)
}

func (w *finalAttempts) wantHeard(t *testing.T, want ...GivenUp) {
	t.Helper()
	if !reflect.DeepEqual(w.heard, want) {
		t.Errorf("final attempts = %+v, want %+v", w.heard, want)
	}
}

// wantProcessed wants the message acknowledged and nothing else to be left of it.
func (w *finalAttempts) wantProcessed(t *testing.T, v verdict) {
	t.Helper()
	if v != done || !w.box.done || w.box.letter != nil || w.box.past != (contract.Attempts{}) {
		t.Errorf("verdict %+v, processed %t, letter %v, attempts %+v; want it processed and nothing left", v, w.box.done, w.box.letter, w.box.past)
	}
}

var errNo = errors.New("no")

func TestGiveUp_Exhausted(t *testing.T) {
	t.Parallel()
	w := newLastWords(t, Config{Retry: waybill.RetryPolicy{MaxRetries: 1}})
	w.usual = errNo
	if v := w.deliver(t, false); !v.again || len(w.heard) != 0 {
		t.Fatalf("first attempt: %+v and %d final attempts, want it to come again", v, len(w.heard))
	}
	w.wantProcessed(t, w.deliver(t, true))
	w.wantHeard(t, GivenUp{Reason: waybill.ReasonExhausted, Err: "no", Attempts: 2})
}

func TestGiveUp_Permanent(t *testing.T) {
	t.Parallel()
	w := newLastWords(t, Config{})
	w.usual = waybill.PermanentError(waybill.ReasonRejected, errNo)
	w.wantProcessed(t, w.deliver(t, false))
	w.wantHeard(t, GivenUp{Reason: waybill.ReasonRejected, Err: "no", Attempts: 1})
}

// TestGiveUp_Repeated: a message that has only its final attempt left does not do its usual work again,
// however long the final attempt fails.
func TestGiveUp_Repeated(t *testing.T) {
	t.Parallel()
	w := newLastWords(t, Config{Retry: waybill.RetryPolicy{BaseDelay: time.Second}})
	w.usual = waybill.PermanentError(waybill.ReasonRejected, errNo)
	w.last = []error{errors.New("blip"), errors.New("blip"), waybill.UnavailableError(errNo)}
	for i, want := range []verdict{
		{again: true, after: time.Second},      // after one attempt
		{again: true, after: 32 * time.Second}, // after the six that there could have been
		{again: true, after: outageWait, uncounted: true},
		done,
	} {
		if v := w.deliver(t, i > 0); v != want {
			t.Errorf("delivery %d: %+v, want %+v", i, v, want)
		}
	}
	w.wantProcessed(t, done)
	if later := (GivenUp{Reason: waybill.ReasonExhausted, Err: "no", Attempts: 6}); w.worked == 1 {
		w.wantHeard(t, GivenUp{Reason: waybill.ReasonRejected, Err: "no", Attempts: 1}, later, later, later)
	} else {
		t.Errorf("%d times of usual work, want one", w.worked)
	}
}

func TestGiveUp_LastWordFailsForGood(t *testing.T) {
	t.Parallel()
	w := newLastWords(t, Config{Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
	w.usual, w.last = errNo, []error{waybill.PermanentError(waybill.ReasonMalformed, errors.New("never"))}
	if v := w.deliver(t, false); v != done || w.box.letter == nil {
		t.Fatalf("verdict %+v, letter %v, want a dead letter", v, w.box.letter)
	}
	if l := w.box.letter; l.Reason != waybill.ReasonMalformed || l.Error != "never" || l.Attempts != 1 {
		t.Errorf("letter of reason %s, %q after %d attempts; want the final attempt's error after one", l.Reason, l.Error, l.Attempts)
	}
}

// TestGiveUp_Poison: a message that has ended its process gets a final attempt, unless that is what
// ends the process.
func TestGiveUp_Poison(t *testing.T) {
	t.Parallel()
	w := newLastWords(t, Config{})
	w.box.past.Starts = poisonStarts
	w.wantProcessed(t, w.deliver(t, true))
	w.wantHeard(t, GivenUp{Reason: waybill.ReasonPoison, Err: poisonous(poisonStarts).Error(), Attempts: poisonStarts})
	if w.worked != 0 {
		t.Error("poison was handled again")
	}

	w = newLastWords(t, Config{})
	w.box.past = contract.Attempts{Count: 6, Starts: poisonStarts}
	if v := w.deliver(t, true); v != done || w.box.letter == nil || w.box.letter.Reason != waybill.ReasonPoison || len(w.heard) != 0 {
		t.Errorf("verdict %+v, letter %+v, want a dead letter as poison", v, w.box.letter)
	}
}

// TestGiveUp_None: those that GiveUp does not name, and one that has the key of another
// message, are dead letters at once.
func TestGiveUp_None(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *finalAttempts){
		"not named": func(w *finalAttempts) { w.cfg.GiveUp = func(*waybill.Message) bool { return false } },
		"not set":   func(w *finalAttempts) { w.cfg.GiveUp = nil },
		"conflict":  func(w *finalAttempts) { w.box.conflict = true },
	} {
		w := newLastWords(t, Config{Retry: waybill.RetryPolicy{MaxRetries: waybill.NoRetries}})
		w.usual = errNo
		change(w)
		if v := w.deliver(t, false); v != done || w.box.letter == nil || len(w.heard) != 0 {
			t.Errorf("%s: verdict %+v, letter %v, %d final attempts; want a dead letter alone", name, v, w.box.letter, len(w.heard))
		}
	}
}

func TestGiveUp_NotUnderLeases(t *testing.T) {
	t.Parallel()
	letters := LettersTo(func(context.Context, inbox.Letter) error { return nil })
	cfg := Config{GiveUp: func(*waybill.Message) bool { return true }}
	_, err := NewLeased(gives{silentSubscriber{}}, billing, &leaseStub{}, func(context.Context, *waybill.Message) error { return nil }, Leases{Bus: "b", Letters: letters}, cfg)
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "consumer.Config.GiveUp" {
		t.Errorf("NewLeased() = %v, want an InvalidError of GiveUp", err)
	}
}

// TakeRequeued finds nothing.
func (b *boxStub) TakeRequeued(context.Context, string, time.Duration) (contract.Requeued, bool, error) {
	return contract.Requeued{}, false, nil
}
