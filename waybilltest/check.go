package waybilltest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	maxDeliveries   = 5    // of one message until it is acknowledged
	maxSteps        = 1000 // of one delivery
	deliveryTimeout = 10 * time.Second
)

// Subject is what a trial runs. All of it is recreated for each trial: a database, fakes of other
// systems, the handler.
type Subject struct {
	// Deliver handles one delivery as the program under test does. nil acknowledges it, and so does a
	// permanent error, which makes a dead letter; after any other error the message is redelivered.
	// [Handle] returns one for a handler. Required.
	Deliver func(ctx context.Context, m *waybill.Message) error

	// Message is what is delivered. A missing ID is filled in. Required.
	Message waybill.Message

	// Effect returns the effect of the deliveries so far, as a value that can be compared and printed:
	// a count, a balance, a map of both. It is called between deliveries. Required.
	Effect func() any
}

// Handle returns a [Subject].Deliver that handles a message as a [consumer.Consumer] of the
// given name does, with its inbox record in the same transaction.
func Handle[Tx any](box contract.Inbox[Tx], name string, h consumer.Handler[Tx]) func(ctx context.Context, m *waybill.Message) error {
	return func(ctx context.Context, m *waybill.Message) error {
		_, err := inbox.Process(ctx, box, name, m, func(ctx context.Context, tx Tx) error {
			return h(waybill.WithMessage(ctx, m), tx, m)
		})
		return err
	}
}

// CheckOnce runs [Check], and fails the test with the report if there is one.
func CheckOnce(t testing.TB, setup func(f *Faults) Subject) {
	t.Helper()
	if err := Check(setup); err != nil {
		t.Fatal(err)
	}
}

// Check returns nil if the effect of a delivery is the same under every schedule as after one
// undisturbed delivery, and otherwise an error whose text shows the first schedule under which it
// is not.
//
// The schedules are: for each step of a delivery, up to its acknowledgement, a crash of the
// process before it, and a lost connection before it, which the process survives; each is
// followed by further deliveries until one is acknowledged, and by one that is a duplicate.
//
// setup is called for each trial, more than twice as often as a delivery has steps; what it
// opens with f is closed after the trial. Deliver must take its steps in the same order each
// time. Goroutines that it starts are not waited for, and not controlled. A delivery may take 10 s
// of real time.
func Check(setup func(f *Faults) Subject) error {
	want, err := calmly(setup)
	if err != nil {
		return err
	}
	for step := range maxSteps {
		for _, what := range []fault{crash, lost} {
			struck, err := disturbed(setup, want, what, step)
			if err != nil {
				return err
			}
			if !struck {
				return nil // there is no such step
			}
		}
	}
	return fmt.Errorf("waybilltest: a delivery has more than %d steps", maxSteps)
}

// calmly runs the trial without faults, in which only a duplicate follows, and returns the effect
// of the first delivery, which all other trials must have.
func calmly(setup func(f *Faults) Subject) (want any, err error) {
	t, err := newTrial(setup)
	defer t.close(&err)
	if err != nil {
		return nil, err
	}
	before := t.subject.Effect()
	if err := t.deliver("delivery 1"); err != nil {
		return nil, fmt.Errorf("waybilltest: the delivery fails although nothing disturbs it: %w", err)
	}
	t.want = t.subject.Effect()
	if reflect.DeepEqual(before, t.want) {
		return nil, fmt.Errorf("waybilltest: Effect is %v before the delivery and after it; it does not see what the handler does", before)
	}
	return t.want, t.untilAcknowledged(", a duplicate")
}

// disturbed runs a trial with a fault before the given step, counted from 0, and reports
// whether there is such a step.
func disturbed(setup func(f *Faults) Subject, want any, what fault, step int) (struck bool, err error) {
	t, err := newTrial(setup)
	defer t.close(&err)
	if err != nil {
		return false, err
	}
	t.want = want
	t.faults.arm(what, step)
	if err := t.untilAcknowledged(""); err != nil {
		return true, err
	}
	if t.faults.disarm() {
		return false, nil
	}
	return true, t.untilAcknowledged(", a duplicate")
}

// trial is one run of a subject under one schedule.
type trial struct {
	faults  *Faults
	subject Subject
	want    any
	count   int // deliveries so far
}

// newTrial returns a trial, also with an error. The caller closes it.
func newTrial(setup func(f *Faults) Subject) (*trial, error) {
	t := &trial{faults: new(Faults)}
	t.subject = setup(t.faults)
	t.subject.Message.Complete()
	switch {
	case t.subject.Deliver == nil:
		return t, &waybill.InvalidError{Field: "waybilltest.Subject.Deliver", Reason: "is required"}
	case t.subject.Effect == nil:
		return t, &waybill.InvalidError{Field: "waybilltest.Subject.Effect", Reason: "is required"}
	}
	return t, nil
}

// close closes what the trial has opened, and joins its error to *err.
func (t *trial) close(err *error) { *err = errors.Join(*err, t.faults.closeAll()) }

// untilAcknowledged delivers the message until it is acknowledged, and compares the effect.
func (t *trial) untilAcknowledged(why string) error {
	for range maxDeliveries {
		err := t.deliver(fmt.Sprintf("delivery %d%s", t.count+1, why))
		if err == nil || waybill.IsPermanent(err) {
			return t.compare()
		}
		why = ", again"
		if t.faults.crashed() {
			why = ", by a new process"
			t.faults.revive()
		}
	}
	return t.report("is unknown: the message is never acknowledged")
}

// deliver delivers the message once. nil says that it is acknowledged, and so does a
// permanent error.
func (t *trial) deliver(line string) error {
	t.count++
	defer t.faults.begin(line)()
	ctx, cancel := context.WithTimeout(context.Background(), deliveryTimeout)
	defer cancel()
	m := t.subject.Message.Clone()
	err := loop.Protect(func() error { return t.subject.Deliver(ctx, &m) })
	if t.faults.crashed() {
		return errCrashed // whatever was returned: the process cannot acknowledge
	}
	if err != nil {
		t.faults.note("  %v error: %v", waybill.KindOf(err), err)
		if !waybill.IsPermanent(err) {
			return err
		}
	}
	if lost := t.faults.Step("acknowledge"); lost != nil {
		return lost
	}
	return err
}

func (t *trial) compare() error {
	if got := t.subject.Effect(); !reflect.DeepEqual(got, t.want) {
		return t.report(fmt.Sprintf("is %v, want %v", got, t.want))
	}
	return nil
}

// report returns what happened, with the outcome.
func (t *trial) report(outcome string) error {
	return fmt.Errorf("waybilltest: the effect is not once under this schedule:\n  %s\n  the effect %s",
		strings.Join(t.faults.schedule, "\n  "), outcome)
}
