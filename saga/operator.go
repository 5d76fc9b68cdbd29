package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// The kinds of [deadletter.Action] that an [Operator] records in the audit log.
const (
	ActResume     deadletter.Action = "saga_resume"
	ActCompensate deadletter.Action = "saga_compensate"
)

// stepType is the type of the messages that make an instance continue with its next step.
const stepType = "waybill.saga.step"

// call is the payload of the messages that an instance sends to itself.
type call struct {
	ID
	Turn    int64  `json:"turn,omitempty"`    // of a step
	Timeout string `json:"timeout,omitempty"` // name of a timeout
}

// message returns the message that carries c.
func (c call) message(typ, topic string) (waybill.Message, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return waybill.Message{}, fmt.Errorf("message of a saga: %w", err)
	}
	return waybill.Message{
		Type: typ, Topic: topic, Key: c.Key, Tenant: c.Tenant, Payload: payload, ContentType: "application/json",
	}, nil
}

// Operator changes instances from outside of their handlers. It is safe for concurrent use.
type Operator struct {
	store OperatorStore
	cfg   OperatorConfig
}

// OperatorConfig configures an [Operator].
type OperatorConfig struct {
	// Source is the source of the messages that make an instance continue. Required.
	Source string

	// Observer receives those messages. Optional; the default logs to slog.Default.
	Observer observe.Observer
}

// NewOperator returns an operator. The error is an [*waybill.InvalidError] that names what is
// missing.
func NewOperator(store OperatorStore, cfg OperatorConfig) (*Operator, error) {
	switch {
	case store == nil:
		return nil, invalid("store", "is required")
	case cfg.Source == "":
		return nil, invalid("OperatorConfig.Source", "is required")
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Operator{store: store, cfg: cfg}, nil
}

// ErrNotStuck reports that there is nothing to resume: the instance is not stuck.
var ErrNotStuck = errors.New("saga: the instance is not stuck")

// ErrNotRunning reports that an instance cannot be compensated: it is already compensating, or has
// ended.
var ErrNotRunning = errors.New("saga: the instance is not running")

// ErrNoSteps reports that an instance has no steps, so that nothing can be compensated automatically.
var ErrNoSteps = errors.New("saga: the instance has no steps")

// Resume makes a stuck instance retry its compensation. The error is
// [waybill.ErrNotFound] for an unknown instance, [ErrNotStuck], an [*waybill.InvalidError] about
// act, or a conflict if the instance was changed at the same time. Nothing was changed then.
func (o *Operator) Resume(ctx context.Context, id ID, act deadletter.Act) error {
	return o.change(ctx, id, act, ActResume, func(in *Instance) error {
		if in.Status != Stuck {
			return ErrNotStuck
		}
		in.Status = Compensating
		return nil
	})
}

// Compensate makes a running instance compensate the completed steps, the last first, as if the next one had
// failed. A step that waits for its answer is compensated too. Errors are as for [Operator.Resume], but
// [ErrNotRunning] or [ErrNoSteps] instead of [ErrNotStuck].
func (o *Operator) Compensate(ctx context.Context, id ID, act deadletter.Act) error {
	return o.change(ctx, id, act, ActCompensate, func(in *Instance) error {
		switch {
		case in.Status != Running:
			return ErrNotRunning
		case in.Progress.Turn == 0:
			return ErrNoSteps
		}
		in.Status, in.Error = Compensating, "compensated by an operator"
		if in.Progress.Waiting { // the step may have been done
			in.Progress.Waiting = false
			in.Progress.Done++
		}
		in.Progress.Back = true
		return nil
	})
}

// change stores an instance as changed by decide, with the message that makes it continue.
func (o *Operator) change(ctx context.Context, id ID, act deadletter.Act, action deadletter.Action, decide func(*Instance) error) error {
	if err := act.Check(); err != nil {
		return err
	}
	in, err := o.store.Saga(ctx, id)
	if err != nil {
		return err
	}
	if err := decide(&in); err != nil {
		return err
	}
	in.Progress.Turn++
	m, err := call{ID: in.ID, Turn: in.Progress.Turn}.message(stepType, in.Progress.Topic)
	if err != nil {
		return err
	}
	m.Source = o.cfg.Source
	m.Complete()
	if err := m.Validate(); err != nil {
		return err
	}
	e := Entry{
		MessageID: m.ID, From: in.State, To: in.State, Status: in.Status, Definition: in.Definition,
		Note: observe.ErrorText(fmt.Errorf("%s by %s", action, act.By)),
	}
	changed, err := o.store.ChangeSaga(ctx, in, e, &m, deadletter.Entry{
		Action: action, By: act.By, Why: act.Why, MessageID: m.ID, Detail: id.Saga + " " + id.Key,
	})
	if err == nil && !changed {
		err = waybill.ConflictError(errors.New("saga: the instance was changed at the same time"))
	}
	if err == nil {
		o.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpEnqueue, Topic: m.Topic, Type: m.Type, IDs: []string{m.ID}, Count: 1})
	}
	return err
}

func invalid(field, reason string) error {
	return &waybill.InvalidError{Field: "saga." + field, Reason: reason}
}
