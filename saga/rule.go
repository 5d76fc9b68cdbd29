package saga

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// Do changes an instance. It runs in the transaction that also stores the instance, and is bound
// to what a [github.com/waybill-go/waybill/consumer.Handler] is: it must not end the transaction,
// an error rolls all of it back, and its kind says what becomes of the message.
type Do[Tx, D any] func(ctx context.Context, c *Context[Tx, D], m *waybill.Message) error

// Missing says what becomes of a message for an instance that the store does not have.
type Missing int

const (
	Bury   Missing = iota // it becomes a dead letter, reason rejected
	Start                 // it begins the instance
	Ignore                // it is passed over, and counted
)

// End stands in Rule.To for the end of the instance.
const End = "[*]"

// Rule says what a type of message does to an instance.
type Rule[Tx, D any] struct {
	// Key returns what the instance is found by, at most [waybill.MaxKeyLen] bytes; together with
	// the message's tenant it names the instance. An error, or an empty key, makes the message a
	// dead letter. Required, but not for a timeout.
	Key func(m *waybill.Message) (string, error)

	// Missing says what becomes of a message for no instance. Optional; the default is [Bury].
	// It is not for a timeout.
	Missing Missing

	// From are the states in which the message is taken. In another one it is an error, which is
	// tried again: the message may have come early. An instance that the message begins has no
	// state yet. A timeout in another state is passed over. Optional; the default is all states.
	From []string

	// To are the states that Do may lead to beside the one it began with, and [End] if it may
	// complete the instance. Anything else is a permanent error. Optional; the default is all.
	To []string

	// Do changes the instance. Required.
	Do Do[Tx, D]
}

// takes reports whether the rule is for instances in this state.
func (r *Rule[Tx, D]) takes(state string) bool {
	return len(r.From) == 0 || slices.Contains(r.From, state)
}

// led returns an error if the rule may not have led there.
func (r *Rule[Tx, D]) led(from, to string, completed bool) error {
	switch {
	case len(r.To) == 0:
		return nil
	case completed && !slices.Contains(r.To, End):
		return wrong("the rule has completed the instance, and To does not hold End")
	case from != to && !slices.Contains(r.To, to):
		return wrong(fmt.Sprintf("the rule has led to the state %q, and To does not hold it", to))
	}
	return nil
}

// wrong is an error of the definition: another attempt would lead to the same.
func wrong(text string) error {
	return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("saga: %s", text))
}

// Step is a part of a process, with what undoes it. Both are done at least once towards other
// systems, and once in the transaction.
type Step[Tx, D any] struct {
	// Name is the step's name, and that of the state that it leads to. At most 190 bytes.
	// Required.
	Name string

	// Execute does the step. A permanent error, or one that has used up the retries of the
	// consumer, rolls back what it did in the transaction and makes the instance undo the steps
	// before. Required.
	Execute func(ctx context.Context, c *Context[Tx, D]) error

	// Compensate undoes the step. If it fails for good the instance is [Stuck]. Optional; without
	// it there is nothing to undo.
	Compensate func(ctx context.Context, c *Context[Tx, D]) error

	// Wait says that the step is done when a rule calls [Context.Done], and not when Execute has
	// returned. An instance that turns back before has this step undone too, unless
	// [Context.Fail] was called: it may have been done.
	Wait bool

	// Timeout is how long to wait. Then the instance turns back. It needs Wait. Optional; the
	// default is for ever.
	Timeout time.Duration
}

// timeoutName is the name of the timeout of a step that waits.
func (s *Step[Tx, D]) timeoutName() string { return "step " + s.Name }
