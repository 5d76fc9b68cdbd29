package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
)

// trip is a saga of three steps. What fails is what the story sets.
type trip struct {
	*office
	noShip, noRefund atomic.Bool
}

// onTrips runs a story with the saga, a consumer and a relay on each kind of store.
func onTrips(t *testing.T, story func(t *testing.T, o *trip)) {
	inOffices(t, func(t *testing.T, o *office) {
		p := &trip{office: o}
		s := o.errands(t, o.store, false)
		s.On("begin", begins(atOnce))
		s.Steps(
			errandStep{Name: "reserve", Execute: doing("reserve"), Compensate: doing("release")},
			errandStep{Name: "charge", Execute: doing("charge"), Compensate: unless(&p.noRefund, doing("refund"))},
			errandStep{Name: "ship", Execute: unless(&p.noShip, doing("ship"))},
		)
		o.run(t, s, consumer.Config{Retry: waybill.RetryPolicy{MaxRetries: 2, BaseDelay: 20 * time.Millisecond}})
		o.start(t, o.broker.Publisher())
		story(t, p)
	})
}

// unless does something, and fails for good behind it while broken is set.
func unless(broken *atomic.Bool, do func(context.Context, *errandChange) error) func(context.Context, *errandChange) error {
	return func(ctx context.Context, c *errandChange) error {
		if err := do(ctx, c); err != nil || !broken.Load() {
			return err
		}
		return waybill.PermanentError(waybill.ReasonRejected, errors.New("nobody is there"))
	}
}

// notes returns those of an instance's log, in their order.
func (o *office) notes(t *testing.T, key string) (notes []string) {
	t.Helper()
	entries, err := o.store.SagaLog(t.Context(), errandID(key), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		notes = append(notes, e.Note)
	}
	return notes
}

// TestSagaCompleted (AS-60): a saga completes, compensates in reverse order, or shows where it is stuck, also when it
// is killed between steps.
func TestSagaCompleted(t *testing.T) {
	onTrips(t, func(t *testing.T, o *trip) {
		o.tell(t, "begin", "a")
		o.waitStatus(t, "a", saga.Completed, "begin", "reserve", "charge", "ship")
		o.noLetters(t)
	})
}

// TestSagaCompensated (AS-60) fails at the third step: the other two are undone, the second first.
func TestSagaCompensated(t *testing.T) {
	onTrips(t, func(t *testing.T, o *trip) {
		o.noShip.Store(true)
		o.tell(t, "begin", "a")
		in := o.waitStatus(t, "a", saga.Compensated, "begin", "reserve", "charge", "refund", "release")
		if in.Error != "nobody is there" || in.EndedAt.IsZero() {
			t.Errorf("the instance is %+v, want the error of the step, and when it has ended", in)
		}
		want := []string{"", "step reserve", "step charge", "step ship failed", "undo charge", "undo reserve"}
		if got := o.notes(t, "a"); !slices.Equal(got, want) {
			t.Errorf("the log says %q, want %q", got, want)
		}
		o.noLetters(t)
	})
}

// TestSagaStuck (AS-60) fails to undo a step: the instance is shown as stuck, and goes on when an operator
// says so.
func TestSagaStuck(t *testing.T) {
	onTrips(t, func(t *testing.T, o *trip) {
		o.noShip.Store(true)
		o.noRefund.Store(true)
		o.tell(t, "begin", "a")
		o.waitStatus(t, "a", saga.Stuck, "begin", "reserve", "charge")
		list, err := o.store.Sagas(t.Context(), saga.Filter{Status: saga.Stuck})
		if err != nil || len(list) != 1 || list[0].Key != "a" || list[0].Error != "nobody is there" {
			t.Errorf("Sagas() = %+v, %v; want the stuck one with its error", list, err)
		}
		counts, err := o.store.SagaCounts(t.Context())
		if err != nil || len(counts) != 1 || counts[0].Saga != "errands" || counts[0].Status != saga.Stuck || counts[0].Count != 1 {
			t.Errorf("SagaCounts() = %+v, %v; want one that is stuck", counts, err)
		}
		o.noLetters(t)
		op, err := saga.NewOperator(o.store, saga.OperatorConfig{Source: "ops", Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		o.noRefund.Store(false)
		if err := op.Resume(t.Context(), errandID("a"), deadletter.Act{By: "ann", Why: "the bank is open"}); err != nil {
			t.Fatal(err)
		}
		o.waitStatus(t, "a", saga.Compensated, "begin", "reserve", "charge", "refund", "release")
		if log := strings.Join(o.notes(t, "a"), ", "); !strings.Contains(log, "saga_resume by ann, undo charge, undo reserve") {
			t.Errorf("the log says %s, want who has resumed it", log)
		}
		if err := op.Resume(t.Context(), errandID("a"), deadletter.Act{By: "ann"}); !errors.Is(err, saga.ErrNotStuck) {
			t.Errorf("Resume() = %v, want ErrNotStuck", err)
		}
	})
}
