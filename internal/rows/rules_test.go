package rows

import (
	"errors"
	"fmt"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// What an action does to a letter: changes it, changes nothing, or is refused.
func TestMay(t *testing.T) {
	t.Parallel()
	letters := []LetterState{
		{Origin: deadletter.FromRelay, State: deadletter.Open},
		{Origin: deadletter.FromRelay, State: deadletter.Open, Requeued: true},
		{Origin: deadletter.FromRelay, State: deadletter.Resolved},
		{Origin: deadletter.FromRelay, State: deadletter.Discarded},
		{Origin: deadletter.FromConsumer, State: deadletter.Open, Keyless: true},
	}
	const keyless = "it has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely"
	requeued, resolved := deadletter.ErrRequeued.Error(), deadletter.ErrResolved.Error()
	tests := []struct {
		action deadletter.Action
		want   [5]string // for each of the letters
	}{
		{deadletter.ActRequeue, [5]string{"true", "false", resolved, resolved, keyless}},
		{deadletter.ActEdit, [5]string{"true", requeued, resolved, resolved, "true"}},
		{deadletter.ActResolve, [5]string{"true", requeued, "false", "false", "true"}},
		{deadletter.ActDiscard, [5]string{"true", requeued, "false", "false", "true"}},
		{deadletter.ActRestore, [5]string{"false", requeued, "true", "true", "false"}},
		{deadletter.ActDelete, [5]string{"true", requeued, "true", "true", "true"}},
	}
	for _, test := range tests {
		for i, l := range letters {
			may, err := May(test.action, l)
			got := fmt.Sprint(may)
			if err != nil {
				got = err.Error()
			}
			if got != test.want[i] {
				t.Errorf("May(%s, %+v) = %s, want %s", test.action, l, got, test.want[i])
			}
			if may && err != nil {
				t.Errorf("May(%s, %+v) = true and an error", test.action, l)
			}
		}
	}
}

// Only a failure that is the message's own makes a requeued letter dead again.
func TestFailureOf(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		cause error
		want  Failure
	}{
		{broken, Failure{"broken", waybill.ReasonExhausted, true}},
		{waybill.PermanentError("no_stock", broken), Failure{"broken", "no_stock", true}},
		{waybill.UnavailableError(broken), Failure{"broken", waybill.ReasonExhausted, false}},
		{waybill.ConflictError(broken), Failure{"broken", waybill.ReasonExhausted, false}},
	}
	for _, test := range tests {
		if got := FailureOf(test.cause); got != test.want {
			t.Errorf("FailureOf(%v) = %+v, want %+v", test.cause, got, test.want)
		}
	}
}

// What can't be requeued is passed over; what may be possible later ends the round, and the letter is looked at again.
func TestReplay_Pass(t *testing.T) {
	t.Parallel()
	away := waybill.UnavailableError(errors.New("away"))
	tests := []struct {
		requeued bool
		err      error
		want     Replay // of which Passed, Requeued and Skipped count
		ends     bool
	}{
		{true, nil, Replay{Replay: deadletter.Replay{Requeued: 1}, Passed: 7}, false},
		{false, nil, Replay{Replay: deadletter.Replay{Skipped: 1}, Passed: 7}, false},
		{false, waybill.ErrNotFound, Replay{Replay: deadletter.Replay{Skipped: 1}, Passed: 7}, false},
		{false, deadletter.ErrResolved, Replay{Replay: deadletter.Replay{Skipped: 1}, Passed: 7}, false},
		{false, deadletter.ErrBehind, Replay{Replay: deadletter.Replay{Skipped: 1}, Passed: 7}, false},
		{false, waybill.PermanentError(waybill.ReasonNoID, errors.New("keyless")), Replay{Replay: deadletter.Replay{Skipped: 1}, Passed: 7}, false},
		{false, away, Replay{}, true},
	}
	for _, test := range tests {
		var r Replay
		err := r.Pass(7, test.requeued, test.err)
		if r.Passed != test.want.Passed || r.Requeued != test.want.Requeued || r.Skipped != test.want.Skipped || (err != nil) != test.ends {
			t.Errorf("Pass(%v, %v) = %v, leaves %d passed, %d requeued, %d skipped", test.requeued, test.err, err, r.Passed, r.Requeued, r.Skipped)
		}
	}
}

// A replay that has seen all letters counts as skipped what it was to requeue and has not found.
func TestReplay_End(t *testing.T) {
	t.Parallel()
	r := Replay{Replay: deadletter.Replay{State: deadletter.Running, Letters: 10, Requeued: 6, Skipped: 1}}
	if r.End(); r.State != deadletter.Done || r.Skipped != 4 {
		t.Errorf("End() leaves %s, %d skipped, want done, 4 skipped", r.State, r.Skipped)
	}
}
