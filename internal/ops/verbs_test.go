package ops_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// TestVerbs_Complete: each verb says who may use it, what the audit log calls it, and what it does; none is there twice.
func TestVerbs_Complete(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, v := range ops.Verbs {
		name := string(v.Noun) + " " + v.Name
		switch {
		case seen[name], seen[string(v.Audit)]:
			t.Errorf("%s, or %s, is there twice", name, v.Audit)
		case v.Past == "" || v.Right == 0 || v.Audit == "" || v.Short == "":
			t.Errorf("%s is not complete: %+v", name, v)
		case v.Do != nil && v.Effect == "":
			t.Errorf("%s does not say what follows", name)
		case v.Danger && v.Right < ops.Administer && v.Audit != deadletter.ActCancel:
			t.Errorf("%s ends something, and who operates may use it", name)
		}
		seen[name], seen[string(v.Audit)] = true, true
	}
}

// TestActions: what the packages leave in the audit log can be asked for.
func TestActions(t *testing.T) {
	t.Parallel()
	got := ops.Actions()
	for _, want := range append(schedule.Actions(), deadletter.ActRequeue, deadletter.ActResolve, deadletter.ActDiscard, deadletter.ActRestore, deadletter.ActDelete,
		deadletter.ActEdit, deadletter.ActReplay, deadletter.ActCancel, deadletter.ActReveal, deadletter.ActEffect, deadletter.ActCleanup, deadletter.ActCancelMessage,
		saga.ActResume, saga.ActCompensate) {
		if !slices.Contains(got, want) {
			t.Errorf("Actions() = %v, want %s among them", got, want)
		}
	}
}

func TestTold(t *testing.T) {
	t.Parallel()
	done := ops.Result{Done: true}
	for _, tt := range []struct {
		noun       ops.Noun
		verb, name string
		result     ops.Result
		want       string
	}{
		{ops.Letter, "requeue", "dead letter 7", done, "Requeued dead letter 7."},
		{ops.Letter, "requeue", "the dead letter", ops.Result{}, "The dead letter is pending already."},
		{ops.Schedule, "pause", "schedule nightly", ops.Result{}, "Schedule nightly is paused already, or has ended."},
		{ops.Schedule, "run-now", "schedule nightly", ops.Result{Done: true, MessageID: "m1"}, "Schedule nightly runs now, by the message m1."},
		{ops.Saga, "resume", "order 17", done, "Resumed order 17: it tries its compensation once more."},
		{ops.Saga, "compensate", "order 17", done, "Compensating order 17: its steps are being undone, the last first."},
		{ops.Replay, "cancel", "replay 1", ops.Result{}, "Replay 1 had ended already."},
	} {
		if got := ops.Find(tt.noun, tt.verb).Told(tt.name, tt.result); got != tt.want {
			t.Errorf("%s: Told() = %q, want %q", tt.verb, got, tt.want)
		}
	}
}

// TestRefused: of the letters that a filter has found, those that others have dealt with are no failures; one that can't
// be requeued yet is. What is not about the letter has no reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err       error
		reason    string // a part of it
		overtaken bool
	}{
		{waybill.ErrNotFound, "not there", true},
		{deadletter.ErrResolved, "resolved or discarded", true},
		{deadletter.ErrRequeued, "pending", true},
		{deadletter.ErrBehind, "try again later", false},
		{saga.ErrNotStuck, "not stuck", true},
		{saga.ErrNotRunning, "not running", true},
		{saga.ErrNoSteps, "no steps", false},
		{&waybill.InvalidError{Field: "type", Reason: "is empty"}, "its type is empty", false},
		{errors.New("disk full"), "", false},
	} {
		reason, overtaken := ops.Refused(fmt.Errorf("letter 7: %w", tt.err))
		if overtaken != tt.overtaken || !strings.Contains(reason, tt.reason) || (reason == "") != (tt.reason == "") {
			t.Errorf("Refused(%v) = %q, %v, want %q, %v", tt.err, reason, overtaken, tt.reason, tt.overtaken)
		}
	}
}

// TestApplies: what is offered for a thing depends on its state.
func TestApplies(t *testing.T) {
	t.Parallel()
	active := schedule.State{}
	active.NextAt = active.NextAt.AddDate(2026, 0, 0)
	for _, tt := range []struct {
		name string
		got  []ops.Verb
		want string
	}{
		{"an open letter", ops.LetterVerbs(&deadletter.Letter{State: deadletter.Open}), "requeue resolve discard edit delete"},
		{"a resolved letter", ops.LetterVerbs(&deadletter.Letter{State: deadletter.Resolved}), "restore delete"},
		{"a requeued letter", ops.LetterVerbs(&deadletter.Letter{State: deadletter.Open, Requeued: true}), ""},
		{"a stuck instance", ops.InstanceVerbs(&saga.Instance{Status: saga.Stuck}), "resume"},
		{"a running instance", ops.InstanceVerbs(&saga.Instance{Status: saga.Running, Progress: saga.Progress{Turn: 1}}), "compensate"},
		{"one without steps", ops.InstanceVerbs(&saga.Instance{Status: saga.Running}), ""},
		{"an active schedule", ops.ScheduleVerbs(&active), "pause run-now remove"},
	} {
		var names []string
		for _, v := range tt.got {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
