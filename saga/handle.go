package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/observe"
)

// Why a message is ignored, as the Status of [observe.OpIgnore].
const (
	ignoreMissing = "missing" // no instance
	ignoreEnded   = "ended"   // the instance takes no further messages
	ignoreStale   = "stale"   // a step or a timeout that is not the latest, or an answer that nothing waits for
)

// delivery is a message with the ID of its instance.
type delivery struct {
	*waybill.Message
	id      ID
	call    call // of a message that an instance has sent to itself
	missing Missing
}

// Handle handles a message for the instance that it belongs to. It is a [consumer.Handler].
//
// A message for an instance that has ended, and a step or a timeout that is not the latest, are
// ignored and counted. The error is permanent, reason unknown_type, for a type without a
// rule, or for another saga's step or timeout; reason malformed if the message has no key, and
// rejected if there is no instance and the rule says [Bury]. It is a conflict if the instance was
// changed at the same time, and unavailable if the instance runs on a definition that this
// program does not have.
func (s *Saga[Tx, D]) Handle(ctx context.Context, tx Tx, m *waybill.Message) error {
	d, err := s.address(m)
	if err != nil {
		return err
	}
	in, err := s.store.ReadSaga(ctx, tx, d.id, s.cfg.Lock)
	switch {
	case err == nil && in.Status.Ended():
		s.ignore(ctx, m, ignoreEnded)
		return nil
	case errors.Is(err, waybill.ErrNotFound):
		return s.withoutInstance(ctx, tx, d)
	case err != nil:
		return fmt.Errorf("read the instance: %w", err)
	}
	definition, err := s.definition(in.Definition)
	if err != nil {
		return err
	}
	return definition.handle(ctx, tx, in, d)
}

// withoutInstance handles a message without an instance, as the rule says.
func (s *Saga[Tx, D]) withoutInstance(ctx context.Context, tx Tx, d delivery) error {
	switch d.missing {
	case Start:
		return s.handle(ctx, tx, Instance{ID: d.id, Definition: s.cfg.Version, Status: Running, Progress: Progress{Topic: s.cfg.Topic}}, d)
	case Ignore:
		s.ignore(ctx, d.Message, ignoreMissing)
		return nil
	}
	return wrong(fmt.Sprintf("%q has no instance for the message", s.cfg.Name))
}

// address finds the instance of a message.
func (s *Saga[Tx, D]) address(m *waybill.Message) (delivery, error) {
	if m.Type == stepType || m.Type == timeoutType {
		return s.addressOwn(m)
	}
	for i, definition := range s.all {
		key, missing, ok := definition.rule(m.Type)
		if !ok {
			continue
		}
		if i > 0 && missing == Start { // no instance starts on an older definition
			missing = Bury
		}
		id, err := s.correlate(m, key)
		return delivery{Message: m, id: id, missing: missing}, err
	}
	return delivery{}, unknownType(m.Type)
}

// addressOwn is address for the messages of instances to themselves.
func (s *Saga[Tx, D]) addressOwn(m *waybill.Message) (delivery, error) {
	d := delivery{Message: m, missing: Ignore}
	if json.Unmarshal(m.Payload, &d.call) != nil || d.call.Tenant != tenantOf(m) {
		return d, waybill.PermanentError(waybill.ReasonMalformed, errors.New("saga: the message is not as instances send them"))
	}
	d.id = d.call.ID
	if d.id.Saga != s.cfg.Name {
		return d, waybill.PermanentError(waybill.ReasonUnknownType, fmt.Errorf("saga: the message is for %q, this is %q", d.id.Saga, s.cfg.Name))
	}
	return d, nil
}

// correlate sets the instance to which a message belongs by its key.
func (s *Saga[Tx, D]) correlate(m *waybill.Message, keyOf func(m *waybill.Message) (string, error)) (ID, error) {
	key, err := keyOf(m)
	switch {
	case err != nil:
		err = fmt.Errorf("saga: the message has no key: %w", err)
	case key == "":
		err = errors.New("saga: the message has no key")
	case len(key) > waybill.MaxKeyLen:
		err = fmt.Errorf("saga: the key of the message has %d bytes, the limit is %d", len(key), waybill.MaxKeyLen)
	}
	return ID{Tenant: tenantOf(m), Saga: s.cfg.Name, Key: key}, waybill.PermanentError(waybill.ReasonMalformed, err)
}

func tenantOf(m *waybill.Message) string {
	if m.Tenant == "" {
		return waybill.DefaultTenant
	}
	return m.Tenant
}

func unknownType(typ string) error {
	return waybill.PermanentError(waybill.ReasonUnknownType, fmt.Errorf("saga: no rule for the type %q", typ))
}

// handle lets a message change an instance of this definition.
func (s *Saga[Tx, D]) handle(ctx context.Context, tx Tx, in Instance, d delivery) error {
	data, err := s.data(&in)
	if err != nil {
		return err
	}
	c := &Context[Tx, D]{Data: data, ID: in.ID, New: in.Version == 0, Tx: tx, saga: s, in: in, message: d.Message, from: in.State}
	changed, err := c.take(ctx, d)
	if err != nil {
		return err
	}
	if !changed {
		s.ignore(ctx, d.Message, ignoreStale)
		return nil
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	return c.store(ctx)
}

// take runs the rule, step or timeout for a message. It returns false for a stale one.
func (c *Context[Tx, D]) take(ctx context.Context, d delivery) (bool, error) {
	switch d.Type {
	case stepType:
		return c.takeStep(ctx, d.call.Turn)
	case timeoutType:
		return c.takeTimeout(ctx, d.call.Timeout)
	}
	r := c.saga.rules.rules[d.Type]
	if r == nil {
		return false, unknownType(d.Type)
	}
	if !c.New && !r.takes(c.in.State) {
		return false, fmt.Errorf("saga: a message of the type %q is not taken in the state %q", d.Type, c.in.State)
	}
	return true, c.follow(ctx, r)
}

// follow runs a rule.
func (c *Context[Tx, D]) follow(ctx context.Context, r *Rule[Tx, D]) error {
	if err := r.Do(ctx, c, c.message); err != nil {
		return err
	}
	return r.led(c.from, c.in.State, c.complete)
}

// store writes the instance and what it sends.
func (c *Context[Tx, D]) store(ctx context.Context) error {
	var err error
	if c.in.Data, err = json.Marshal(c.Data); err != nil {
		return fmt.Errorf("saga: encode the data of the instance: %w", err)
	}
	if len(c.in.State) > maxStateLen {
		return wrong(fmt.Sprintf("the name of the state has %d bytes, the limit is %d", len(c.in.State), maxStateLen))
	}
	e := Entry{
		MessageID: c.message.ID, MessageType: c.message.Type, From: c.from, To: c.in.State, Status: c.in.Status,
		Definition: c.in.Definition, Node: c.saga.cfg.Node, Note: c.note,
	}
	written, err := c.saga.store.WriteSaga(ctx, c.Tx, &c.in, e)
	switch {
	case err != nil:
		return fmt.Errorf("write the instance: %w", err)
	case !written:
		return waybill.ConflictError(errors.New("saga: the instance was changed at the same time"))
	}
	if len(c.out) > 0 {
		if _, err := c.saga.writer.Enqueue(ctx, c.Tx, c.out...); err != nil {
			return err
		}
	}
	c.saga.observe(ctx, observe.OpSaga, c.message, string(c.in.Status))
	return nil
}

func (s *Saga[Tx, D]) ignore(ctx context.Context, m *waybill.Message, why string) {
	s.observe(ctx, observe.OpIgnore, m, why)
}

func (s *Saga[Tx, D]) observe(ctx context.Context, op observe.Op, m *waybill.Message, status string) {
	s.cfg.Observer.Observe(ctx, observe.Event{Op: op, Name: s.cfg.Name, Topic: m.Address(), Type: m.Type, IDs: []string{m.ID}, Count: 1, Status: status})
}

// GivesUp reports whether m makes an instance execute or compensate a step. It is for
// consumer.Config.GiveUp of a consumer whose handler is a saga with steps: such a message does not
// become a dead letter when it fails permanently; the instance compensates, or is [Stuck].
func GivesUp(m *waybill.Message) bool { return m.Type == stepType }

var _ consumer.Handler[int] = (*Saga[int, int])(nil).Handle
