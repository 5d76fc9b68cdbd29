package rows

import (
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// LetterState is the state of a dead letter by which actions are allowed or refused.
type LetterState struct {
	Origin   deadletter.Origin
	State    deadletter.State
	Requeued bool // it is requeued; a relay's dead letter then waits in the outbox, and is no dead letter any more
	Keyless  bool // a consumer's dead letter without an inbox key
}

// May reports whether an action of an operator changes a dead letter in a state. If the action was done already
// it returns false and no error.
func May(action deadletter.Action, l LetterState) (bool, error) {
	open := l.State == deadletter.Open
	switch {
	case action == deadletter.ActRequeue:
		return l.mayRequeue()
	case l.Requeued:
		return false, deadletter.ErrRequeued
	case action == deadletter.ActEdit && !open:
		return false, deadletter.ErrResolved
	case action == deadletter.ActRestore:
		return !open, nil
	case action == deadletter.ActDelete:
		return true, nil
	}
	return open, nil // edit, resolve, discard
}

func (l LetterState) mayRequeue() (bool, error) {
	switch {
	case l.State != deadletter.Open:
		return false, deadletter.ErrResolved
	case l.Keyless:
		return false, waybill.PermanentError(waybill.ReasonNoID, fmt.Errorf(
			"it has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely"))
	}
	return !l.Requeued, nil
}

// Detail is what the audit log says of an action on a dead letter, apart from the action: what the dead letter
// was, if that can no longer be seen.
func (l LetterState) Detail(action deadletter.Action) string {
	if action == deadletter.ActRestore || action == deadletter.ActDelete {
		return "was " + string(l.State)
	}
	return ""
}

// DuplicateError is the error of a dead letter that came due while another message with its id was pending.
const DuplicateError = "a message with this id was on its way when this one was due"

// RequeueWait is how long a requeued dead letter waits after an outage or a conflict.
const RequeueWait = 5 * time.Second

// Failure is what becomes of a requeued dead letter whose consumer has failed again.
type Failure struct {
	Error     string
	Reason    waybill.Reason
	DeadAgain bool // else it is run again after RequeueWait, and the attempt does not count
}

// FailureOf returns what an error of the consumer leads to.
func FailureOf(cause error) Failure {
	f := Failure{Error: observe.ErrorText(cause), Reason: waybill.ReasonExhausted}
	switch waybill.KindOf(cause) {
	case waybill.Permanent:
		f.Reason, f.DeadAgain = waybill.ReasonOf(cause), true
	case waybill.Transient:
		f.DeadAgain = true
	}
	return f
}

// Stops ends a replay if what has failed again reaches the limit of its plan, and reports whether it has.
func (r *Replay) Stops() bool {
	if r.Problem = r.Plan.Problem(r.Requeued, r.Failed); r.Problem == "" {
		return false
	}
	r.State = deadletter.Stopped
	return true
}

// Pass records what became of the next dead letter of a replay. It returns an error that ends the round; a dead
// letter that can't be requeued is skipped.
func (r *Replay) Pass(number int64, requeued bool, err error) error {
	switch {
	case err != nil && !passable(err):
		return err
	case err != nil || !requeued:
		r.Skipped++
	default:
		r.Requeued++
	}
	r.Passed = number
	return nil
}

// passable reports whether an error says that a dead letter can't be requeued.
func passable(err error) bool {
	return errors.Is(err, waybill.ErrNotFound) || errors.Is(err, deadletter.ErrResolved) || errors.Is(err, deadletter.ErrBehind) || waybill.IsPermanent(err)
}

// End ends a replay that has seen all its dead letters. What was settled or deleted since it began counts as
// skipped.
func (r *Replay) End() {
	r.State, r.Skipped = deadletter.Done, max(r.Skipped, r.Letters-r.Requeued)
}
