package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// Right is the right that a verb requires. Each includes those before it.
type Right int

// The rights, in the order of the roles that have them.
const (
	Look Right = iota + 1
	Operate
	Administer
)

// Noun is the kind of object of a verb.
type Noun string

// The nouns of the table.
const (
	Letter    Noun = "dead letter"
	Replay    Noun = "replay"
	Schedule  Noun = "schedule"
	Scheduled Noun = "message" // that waits for its time
	Saga      Noun = "instance"
)

// Target is one object of a verb.
type Target struct {
	Number   int64   // of a dead letter or replay
	Name     string  // of a schedule, or the id of a message
	Instance saga.ID // of a saga
}

// Result is the result of a verb.
type Result struct {
	Done      bool   // false: nothing was to be done
	MessageID string // of the message of a schedule's run
}

// Verb is something that an operator can do. Texts continue sentences: "it was not {Past}: it {Nothing}".
type Verb struct {
	Noun    Noun
	Name    string // as it is typed
	Past    string // "requeued"
	Right   Right
	Audit   deadletter.Action
	Preview bool // matches of a filter are counted and shown before it is done to all of them

	Short   string // what it is for, of several
	Effect  string // what follows from it; whole sentences
	Says    string // what is said of %s when it is done; "Requeued %s" if left out
	Then    string // and what happens next
	Nothing string // why nothing was to be done
	Missing bool   // that was because it does not exist, which is a failure
	MustSay string // what has to be said with it; "" if it may be done without a reason
	Danger  bool   // it ends something
	Invites string // to it, where it is the first to be done

	// Ends is the state of a dead letter that counts as done.
	Ends deadletter.State

	// Do executes the verb. The caller has made sure that the store keeps the noun. Nil if it takes more than a
	// target.
	Do func(ctx context.Context, s Stores, t Target, act deadletter.Act) (Result, error)
}

const keptSettled = "It is kept until its retention ends, but can't be requeued any more. What is parked behind it is published."

// Verbs is the table of everything that operators do.
var Verbs = []Verb{
	{
		Noun: Letter, Name: "requeue", Invites: "Requeue it", Past: "requeued", Right: Operate, Audit: deadletter.ActRequeue, Preview: true,
		Short:   "Requeue dead letters",
		Effect:  "A relay's letter is published again under its own id, before what is parked behind it; a consumer's is handled again by that consumer only.",
		Nothing: "is pending already", Do: letter(deadletter.Store.RequeueDeadLetter),
	},
	{
		Noun: Letter, Name: "resolve", Past: "resolved", Right: Operate, Audit: deadletter.ActResolve, Preview: true, MustSay: "How it was dealt with",
		Short:   "Note that dead letters were dealt with in another way",
		Effect:  keptSettled,
		Nothing: "was discarded", Ends: deadletter.Resolved, Do: letter(deadletter.Store.ResolveDeadLetter),
	},
	{
		Noun: Letter, Name: "discard", Past: "discarded", Right: Administer, Audit: deadletter.ActDiscard, Preview: true, MustSay: "Why", Danger: true,
		Short:   "Note that nobody will deal with dead letters",
		Effect:  "Its message counts as discarded. " + keptSettled,
		Nothing: "was resolved in another way", Ends: deadletter.Discarded, Do: letter(deadletter.Store.DiscardDeadLetter),
	},
	{
		Noun: Letter, Name: "edit", Past: "edited", Right: Administer, Audit: deadletter.ActEdit,
		Short:  "Put a corrected copy of a dead letter back",
		Effect: "The copy has an id of its own, and the place of the original in the order of its key. The original is kept, resolved.",
	},
	{
		Noun: Letter, Name: "restore", Past: "restored", Right: Administer, Audit: deadletter.ActRestore, Preview: true, MustSay: "Why",
		Short:   "Open dead letters again that were resolved or discarded by mistake",
		Effect:  "It can be requeued again. What was parked behind it has gone on.",
		Nothing: "is open", Ends: deadletter.Open, Do: letter(deadletter.Store.RestoreDeadLetter),
	},
	{
		Noun: Letter, Name: "delete", Past: "deleted", Right: Administer, Audit: deadletter.ActDelete, Preview: true, MustSay: "Why", Danger: true,
		Short:   "Remove dead letters with their payloads",
		Effect:  "It is removed at once and for good; the audit log keeps its number and the id of the message. For its consumer the message counts as processed then. What is parked behind it is published.",
		Nothing: "is not there", Do: letter(deadletter.Store.DeleteDeadLetter),
	},
	{
		Noun: Replay, Name: "replay", Past: "started", Right: Operate, Audit: deadletter.ActReplay, Preview: true,
		Short: "Requeue many dead letters, rate-limited",
	},
	{
		Noun: Replay, Name: "cancel", Past: "cancelled", Right: Operate, Audit: deadletter.ActCancel, Danger: true,
		Short:   "End a bulk replay that runs",
		Effect:  "What it has requeued goes on; the rest stays dead.",
		Nothing: "had ended already",
		Do: func(ctx context.Context, s Stores, t Target, act deadletter.Act) (Result, error) {
			done, err := s.Replays.CancelReplay(ctx, t.Number, act)
			return Result{Done: done}, err
		},
	},
	{
		Noun: Schedule, Name: "pause", Invites: "Stop it", Past: "paused", Right: Operate, Audit: schedule.ActPause,
		Short:   "Stop a recurring schedule until it is resumed",
		Effect:  "What it has enqueued goes on. It stays paused when its program restarts.",
		Nothing: "is paused already, or has ended", Do: scheduled((*schedule.Operator).Pause),
	},
	{
		Noun: Schedule, Name: "resume", Invites: "Let it go on", Past: "resumed", Right: Operate, Audit: schedule.ActResume,
		Short:   "Let a paused schedule go on, from now",
		Effect:  "What was planned meanwhile is left out and not counted.",
		Nothing: "is not paused", Do: scheduled((*schedule.Operator).Resume),
	},
	{
		Noun: Schedule, Name: "run-now", Past: "run", Right: Operate, Audit: schedule.ActRun, Says: "%s runs now",
		Short:  "Enqueue the message of a recurring schedule at once",
		Effect: "It is enqueued whatever the schedule's status is, and a relay takes it up at its next poll. The schedule itself stays as it is.",
		Do:     runNow,
	},
	{
		Noun: Schedule, Name: "remove", Past: "removed", Right: Administer, Audit: schedule.ActRemove, Danger: true,
		Short:   "Remove a recurring schedule",
		Effect:  "What it has enqueued goes on. A program that puts it at its start recreates it: pause it if it is to stay away.",
		Nothing: "is not there", Missing: true, Do: scheduled((*schedule.Operator).Remove),
	},
	{
		Noun: Scheduled, Name: "cancel", Invites: "Take it back", Past: "cancelled", Right: Administer, Audit: schedule.ActCancel, Danger: true,
		Short:   "Remove a single message that waits for its time",
		Effect:  "It is never published. It must have been scheduled under its id; for what was enqueued with a delivery time there is \"waybill outbox cancel\".",
		Nothing: "is pending already, was cancelled, or never was", Missing: true, Do: scheduled((*schedule.Operator).Cancel),
	},
	{
		Noun: Saga, Name: "resume", Invites: "When the cause is fixed", Past: "resumed", Right: Operate, Audit: saga.ActResume, Then: "it tries its compensation once more",
		Short:  "Let a stuck instance try its compensation once more",
		Effect: "It goes on from the step that could not be undone. Fix the cause first: its history names it.",
		Do:     instance((*saga.Operator).Resume),
	},
	{
		Noun: Saga, Name: "compensate", Invites: "Undo its steps", Past: "compensated", Right: Administer, Audit: saga.ActCompensate, Danger: true,
		Says: "compensating %s", Then: "its steps are being undone, the last first",
		Short:  "Make a running instance undo its steps",
		Effect: "The steps that are done are undone, the last first, as if the next one had failed. What runs at this moment is not interrupted: if it changes the instance first, nothing is done.",
		Do:     instance((*saga.Operator).Compensate),
	},
}

// Find returns the verb with a name, which must be in the table.
func Find(noun Noun, name string) Verb {
	i := slices.IndexFunc(Verbs, func(v Verb) bool { return v.Noun == noun && v.Name == name })
	return Verbs[i]
}

// Actions returns all actions of the audit log: those of the verbs, and those without one.
func Actions() []deadletter.Action {
	actions := []deadletter.Action{deadletter.ActReveal, deadletter.ActEffect, deadletter.ActCleanup, deadletter.ActCancelMessage}
	for _, v := range slices.Backward(Verbs) {
		actions = slices.Insert(actions, 0, v.Audit)
	}
	return actions
}

// Title is the label of the verb on a button.
func (v Verb) Title() string { return Capital(strings.ReplaceAll(v.Name, "-", " ")) }

// Help says what the verb is for, and what follows from it.
func (v Verb) Help() string { return v.Short + ". " + v.Effect }

// Told describes the outcome for something with a name, as in "dead letter 7", or "the dead letter".
func (v Verb) Told(name string, r Result) string {
	if !r.Done {
		return Capital(name) + " " + v.Nothing + "."
	}
	says := v.Says
	if says == "" {
		says = v.Past + " %s"
	}
	text := fmt.Sprintf(says, name)
	if r.MessageID != "" {
		text += ", by the message " + r.MessageID
	}
	if v.Then != "" {
		text += ": " + v.Then
	}
	return Capital(text) + "."
}

// Undone says why the verb was not done.
func (v Verb) Undone(name, reason string) string {
	return name + " was not " + v.Past + ": " + reason
}

func letter(do func(deadletter.Store, context.Context, int64, deadletter.Act) (bool, error)) func(context.Context, Stores, Target, deadletter.Act) (Result, error) {
	return func(ctx context.Context, s Stores, t Target, act deadletter.Act) (Result, error) {
		done, err := do(s.Letters, ctx, t.Number, act)
		return Result{Done: done}, err
	}
}

func scheduled(do func(*schedule.Operator, context.Context, string, deadletter.Act) (bool, error)) func(context.Context, Stores, Target, deadletter.Act) (Result, error) {
	return func(ctx context.Context, s Stores, t Target, act deadletter.Act) (Result, error) {
		o, err := schedule.NewOperator(s.Schedules, schedule.OperatorConfig{Observer: s.Observer})
		if err != nil {
			return Result{}, err
		}
		done, err := do(o, ctx, t.Name, act)
		return Result{Done: done}, err
	}
}

func runNow(ctx context.Context, s Stores, t Target, act deadletter.Act) (r Result, err error) {
	_, err = scheduled(func(o *schedule.Operator, ctx context.Context, name string, act deadletter.Act) (bool, error) {
		r.MessageID, err = o.RunNow(ctx, name, act)
		return true, err
	})(ctx, s, t, act)
	r.Done = err == nil
	return r, err
}

func instance(do func(*saga.Operator, context.Context, saga.ID, deadletter.Act) error) func(context.Context, Stores, Target, deadletter.Act) (Result, error) {
	return func(ctx context.Context, s Stores, t Target, act deadletter.Act) (Result, error) {
		o, err := saga.NewOperator(s.Sagas, saga.OperatorConfig{Source: s.Source, Observer: s.Observer})
		if err != nil {
			return Result{}, err
		}
		err = do(o, ctx, t.Instance, act)
		return Result{Done: err == nil}, err
	}
}
