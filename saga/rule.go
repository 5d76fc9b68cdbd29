package saga

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// Do changes an instance. It runs in the transaction that also stores the instance, under the rules
// of a [github.com/waybill-go/waybill/consumer.Handler]: it must not end the transaction, an error
// rolls everything back, and its kind says what happens to the message.
type Do[Tx, D any] func(ctx context.Context, c *Context[Tx, D], m *waybill.Message) error

// Missing says what to do with a message for an instance that does not exist.
type Missing int

const (
	Bury   Missing = iota // it becomes a dead letter, reason rejected
	Start                 // it starts the instance
	Ignore                // it is ignored, and counted
)

// End stands in Rule.To for the end of the instance.
const End = "[*]"

// Rule says how a type of message changes an instance.
type Rule[Tx, D any] struct {
	// Key returns the key of the instance, at most [waybill.MaxKeyLen] bytes; together with the
	// message's tenant it identifies the instance. An error, or an empty key, makes the message a dead
	// letter. Required; not allowed for a timeout.
	Key func(m *waybill.Message) (string, error)

	// Missing says what to do with a message without an instance. Optional; the default is [Bury]. Not
	// allowed for a timeout.
	Missing Missing

	// From are the states in which the message is accepted. In another one it is an error, which is
	// retried: the message may have come early. An instance that the message starts has no state yet. A
	// timeout in another state is ignored. Optional; the default is all states.
	From []string

	// To are the states that Do may set, in addition to the current one, and [End] if it may complete
	// the instance. Anything else is a permanent error. Optional; the default is all.
	To []string

	// Do changes the instance. Required.
	Do Do[Tx, D]
}

// takes reports whether the rule applies to instances in this state.
func (r *Rule[Tx, D]) takes(state string) bool {
	return len(r.From) == 0 || slices.Contains(r.From, state)
}

// led returns an error if the rule does not allow this change of state.
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

// wrong is an error of the definition: another attempt would fail the same way.
func wrong(text string) error {
	return waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("saga: %s", text))
}

// Step is a part of a process, with its compensation. Effects of both on other systems happen at
// least once, effects in the transaction once.
type Step[Tx, D any] struct {
	// Name is the name of the step, and of the state after it. At most 190 bytes.
	// Required.
	Name string

	// Execute does the step. A permanent error, or one that has used up the retries of the consumer,
	// rolls back what it did in the transaction and makes the instance compensate the steps before.
	// Required.
	Execute func(ctx context.Context, c *Context[Tx, D]) error

	// Compensate undoes the step. If it fails permanently the instance is [Stuck]. Optional; without
	// it there is nothing to undo.
	Compensate func(ctx context.Context, c *Context[Tx, D]) error

	// Wait says that the step is done when a rule calls [Context.Done], and not when Execute has
	// returned. If the instance compensates before that, this step is compensated too, unless
	// [Context.Fail] was called: it may have been done.
	Wait bool

	// Timeout is how long to wait. Then the instance compensates. It requires Wait. Optional; the
	// default is no timeout.
	Timeout time.Duration
}

// timeoutName returns the name of the timeout of a waiting step.
func (s *Step[Tx, D]) timeoutName() string { return "step " + s.Name }
