package saga

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// operatorShelf is a store with one instance. It notes what was changed.
type operatorShelf struct {
	Inspector
	in        Instance
	overtaken bool // somebody else changes the instance first
	fail      error

	changes []operatorChange
}

type operatorChange struct {
	in    Instance
	entry Entry
	m     waybill.Message
	audit deadletter.Entry
}

func (s *operatorShelf) Saga(_ context.Context, id ID) (Instance, error) {
	if id != s.in.ID {
		return Instance{}, waybill.ErrNotFound
	}
	return s.in, nil
}

func (s *operatorShelf) ChangeSaga(_ context.Context, in Instance, e Entry, m *waybill.Message, a deadletter.Entry) (bool, error) {
	if s.overtaken || s.fail != nil {
		return false, s.fail
	}
	s.changes = append(s.changes, operatorChange{in, e, *m, a})
	return true, nil
}

// operatorWatcher notes what it receives.
type operatorWatcher struct{ events []observe.Event }

func (w *operatorWatcher) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (w *operatorWatcher) Observe(_ context.Context, e observe.Event) { w.events = append(w.events, e) }

func newTestOperator(t *testing.T, store OperatorStore) (*Operator, *operatorWatcher) {
	t.Helper()
	w := &operatorWatcher{}
	o, err := NewOperator(store, OperatorConfig{Source: "desk", Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	return o, w
}

var (
	operatedID  = ID{Tenant: "acme", Saga: "order", Key: "17"}
	operatorAnn = deadletter.Act{By: "ann", Why: "the bank is back"}
)

// operated returns the instance with two steps done, the third begun.
func operated(status Status) Instance {
	return Instance{
		ID: operatedID, Number: 4, Version: 7, Definition: 2, Status: status, State: "shipping", Data: json.RawMessage(`{"sum":5}`),
		Progress: Progress{Topic: "orders", Done: 2, Waiting: true, Turn: 9},
	}
}

func TestNewOperator_Refuses(t *testing.T) {
	t.Parallel()
	for want, newOne := range map[string]func() (*Operator, error){
		"saga.store":                 func() (*Operator, error) { return NewOperator(nil, OperatorConfig{Source: "desk"}) },
		"saga.OperatorConfig.Source": func() (*Operator, error) { return NewOperator(&operatorShelf{}, OperatorConfig{}) },
	} {
		var invalid *waybill.InvalidError
		if _, err := newOne(); !errors.As(err, &invalid) || invalid.Field != want {
			t.Errorf("NewOperator() = %v, want an error about %s", err, want)
		}
	}
}

func TestOperator_Resume(t *testing.T) {
	t.Parallel()
	in := operated(Stuck)
	in.Error, in.Progress.Back, in.Progress.Waiting = "refund: 502", true, false
	store := &operatorShelf{in: in}
	o, _ := newTestOperator(t, store)
	if err := o.Resume(t.Context(), operatedID, operatorAnn); err != nil {
		t.Fatal(err)
	}
	want := in
	want.Status, want.Progress.Turn = Compensating, 10
	checkChange(t, store, want, ActResume, "saga_resume by ann")
}

// A step that waits for its answer may have been done, so it is undone too.
func TestOperator_Compensate(t *testing.T) {
	t.Parallel()
	for waiting, done := range map[bool]int{true: 3, false: 2} {
		testCompensate(t, waiting, done)
	}
}

func testCompensate(t *testing.T, waiting bool, done int) {
	t.Helper()
	store := &operatorShelf{in: operated(Running)}
	store.in.Progress.Waiting = waiting
	o, w := newTestOperator(t, store)
	if err := o.Compensate(t.Context(), operatedID, operatorAnn); err != nil {
		t.Fatal(err)
	}
	want := operated(Compensating)
	want.Error = "compensated by an operator"
	want.Progress = Progress{Topic: "orders", Done: done, Back: true, Turn: 10}
	checkChange(t, store, want, ActCompensate, "saga_compensate by ann")
	if len(w.events) != 1 || w.events[0].Op != observe.OpEnqueue || w.events[0].Topic != "orders" || !slices.Equal(w.events[0].IDs, []string{store.changes[0].m.ID}) {
		t.Errorf("the observer received %+v, want the message that was enqueued", w.events)
	}
}

// checkChange compares the only change of a store: the instance, its log, the message by which
// it goes on, and the audit log.
func checkChange(t *testing.T, store *operatorShelf, want Instance, action deadletter.Action, note string) {
	t.Helper()
	if len(store.changes) != 1 {
		t.Fatalf("%d changes, want one", len(store.changes))
	}
	c := store.changes[0]
	got, errGot := json.Marshal(c.in)
	wanted, errWanted := json.Marshal(want)
	if err := errors.Join(errGot, errWanted); err != nil || string(got) != string(wanted) {
		t.Errorf("the instance is\n%s\nwant\n%s %v", got, wanted, err)
	}
	wantEntry := Entry{MessageID: c.m.ID, From: "shipping", To: "shipping", Status: Compensating, Definition: 2, Note: note}
	if c.entry != wantEntry {
		t.Errorf("the log has %+v, want %+v", c.entry, wantEntry)
	}
	wantPayload := `{"tenant":"acme","saga":"order","key":"17","turn":10}`
	if m := c.m; m.ID == "" || m.Type != stepType || m.Topic != "orders" || m.Key != "17" || m.Tenant != "acme" || m.Source != "desk" || string(m.Payload) != wantPayload {
		t.Errorf("the message is %+v with %s", m, m.Payload)
	}
	wantAudit := deadletter.Entry{Action: action, By: "ann", Why: "the bank is back", MessageID: c.m.ID, Detail: "order 17"}
	if c.audit != wantAudit {
		t.Errorf("the audit log has %+v, want %+v", c.audit, wantAudit)
	}
}

func TestOperator_ChangesNothing(t *testing.T) {
	t.Parallel()
	type act = func(*Operator) error
	by := func(id ID, a deadletter.Act) (resume, compensate act) {
		return func(o *Operator) error { return o.Resume(t.Context(), id, a) },
			func(o *Operator) error { return o.Compensate(t.Context(), id, a) }
	}
	resume, compensate := by(operatedID, operatorAnn)
	resumeOther, compensateOther := by(ID{Tenant: "other", Saga: "order", Key: "17"}, operatorAnn)
	resumeNobody, compensateNobody := by(operatedID, deadletter.Act{})
	with := func(status Status) *operatorShelf { return &operatorShelf{in: operated(status)} }
	noSteps := with(Running)
	noSteps.in.Progress = Progress{}
	noTopic := with(Running)
	noTopic.in.Progress.Topic = ""
	errAway := waybill.UnavailableError(errors.New("away"))
	away := with(Running)
	away.fail = errAway
	overtaken, overtakenStuck := with(Running), with(Stuck)
	overtaken.overtaken, overtakenStuck.overtaken = true, true
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	isInvalid := func(err error) bool { var invalid *waybill.InvalidError; return errors.As(err, &invalid) }
	for _, tt := range []struct {
		name  string
		store *operatorShelf
		act   act
		want  func(error) bool
	}{
		{"resume what runs", with(Running), resume, is(ErrNotStuck)},
		{"resume what compensates", with(Compensating), resume, is(ErrNotStuck)},
		{"resume what has ended", with(Completed), resume, is(ErrNotStuck)},
		{"compensate what is stuck", with(Stuck), compensate, is(ErrNotRunning)},
		{"compensate what compensates", with(Compensating), compensate, is(ErrNotRunning)},
		{"compensate what is undone", with(Compensated), compensate, is(ErrNotRunning)},
		{"compensate without steps", noSteps, compensate, is(ErrNoSteps)},
		{"resume what is unknown", with(Stuck), resumeOther, is(waybill.ErrNotFound)},
		{"compensate what is unknown", with(Running), compensateOther, is(waybill.ErrNotFound)},
		{"nobody resumes", with(Stuck), resumeNobody, isInvalid},
		{"nobody compensates", with(Running), compensateNobody, isInvalid},
		{"no topic to go on", noTopic, compensate, isInvalid},
		{"overtaken by a message", overtaken, compensate, waybill.IsConflict},
		{"resume is overtaken", overtakenStuck, resume, waybill.IsConflict},
		{"the store is away", away, compensate, waybill.IsUnavailable},
	} {
		o, w := newTestOperator(t, tt.store)
		if err := tt.act(o); !tt.want(err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(tt.store.changes)+len(w.events) > 0 {
			t.Errorf("%s: something was changed, or told", tt.name)
		}
	}
}

// What an operator says does not make the note too long for the log.
func TestOperator_Note(t *testing.T) {
	t.Parallel()
	store := &operatorShelf{in: operated(Stuck)}
	o, _ := newTestOperator(t, store)
	act := deadletter.Act{By: strings.Repeat("ü", waybill.MaxIDLen/2), Why: strings.Repeat("x", observe.MaxErrorLen)}
	if err := o.Resume(t.Context(), operatedID, act); err != nil {
		t.Fatal(err)
	}
	if note := store.changes[0].entry.Note; len(note) > observe.MaxErrorLen || !strings.Contains(note, act.By) {
		t.Errorf("the note has %d bytes", len(note))
	}
}
