package slip

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/outbox"
)

// Activity is an activity that a host executes and compensates for slips. Both functions run in the
// transaction of the consumer's inbox, under the rules of a [consumer.Handler]: nil commits, an
// error rolls back, and its kind says whether it is retried.
type Activity[Tx any] struct {
	// Name is the activity's name in itineraries. At most [waybill.MaxTypeLen] bytes. Required.
	Name string

	// Execute does the activity. After a permanent error, or when the retries are used up, the slip is
	// compensated. Required.
	Execute func(ctx context.Context, tx Tx, c *Call) error

	// Compensate undoes what Execute has committed. If it fails permanently the slip is stuck.
	// Optional: without it there is nothing to undo, and the activity is skipped.
	Compensate func(ctx context.Context, tx Tx, c *Call) error
}

// Config configures a [Host].
type Config[Tx any] struct {
	// Activities are the activities of this host. Required.
	Activities []Activity[Tx]

	// Advance records in tx that a slip has reached a position, and returns false if it has been there,
	// or further, before; the message is then ignored. Positions rise along the path of a slip.
	// Optional: without it duplicates are recognised by the inbox, for its retention.
	Advance func(ctx context.Context, tx Tx, slip string, position int) (bool, error)
}

// Host runs the activities of one service. It is safe for concurrent use.
type Host[Tx any] struct {
	writer     *outbox.Writer[Tx]
	cfg        Config[Tx]
	activities map[string]Activity[Tx]
}

// NewHost returns a host that enqueues with w. The error is an [*waybill.InvalidError] that names
// what is missing or wrong.
func NewHost[Tx any](w *outbox.Writer[Tx], cfg Config[Tx]) (*Host[Tx], error) {
	switch {
	case w == nil:
		return nil, &waybill.InvalidError{Field: "w", Reason: "a writer is required"}
	case len(cfg.Activities) == 0:
		return nil, invalidf("Config.Activities", "is empty; at least one is required")
	}
	h := &Host[Tx]{writer: w, cfg: cfg, activities: make(map[string]Activity[Tx])}
	for i, a := range cfg.Activities {
		field := fmt.Sprintf("Config.Activities[%d].", i)
		_, twice := h.activities[a.Name]
		switch {
		case a.Name == "":
			return nil, invalidf(field+"Name", "is required")
		case len(a.Name) > waybill.MaxTypeLen:
			return nil, invalidf(field+"Name", "has %d bytes, the limit is %d", len(a.Name), waybill.MaxTypeLen)
		case twice:
			return nil, invalidf(field+"Name", "is that of another activity")
		case a.Execute == nil:
			return nil, invalidf(field+"Execute", "is required")
		}
		h.activities[a.Name] = a
	}
	return h, nil
}

// GivesUp is the consumer.Config.GiveUp of consumers whose handler is [Host.Handle]: it lets the
// host compensate a slip when a message of it has failed permanently. Without it such a message is
// a dead letter, and the slip does not continue until that is requeued.
func GivesUp(m *waybill.Message) bool {
	return m.Type == execute.Type() || m.Type == compensate.Type()
}

// Handle handles a message of a slip; it is a [consumer.Handler]. Its consumer receives the
// topics of the host's activities and has [GivesUp] in its Config. A message for an activity that
// the host does not have is retried, as another replica may have it; in the end the slip is
// compensated.
func (h *Host[Tx]) Handle(ctx context.Context, tx Tx, m *waybill.Message) error {
	s, t, err := decode(m)
	if err != nil {
		return err
	}
	if h.cfg.Advance != nil {
		fresh, err := h.cfg.Advance(ctx, tx, s.ID, s.position(t))
		if err != nil || !fresh {
			return err
		}
	}
	msgs, err := h.next(ctx, tx, s, t)
	if err != nil || len(msgs) == 0 {
		return err
	}
	_, err = h.writer.Enqueue(ctx, tx, msgs...)
	return err
}

// next runs the activity of a message, and returns the messages that follow.
func (h *Host[Tx]) next(ctx context.Context, tx Tx, s *state, t waybill.EventType[state]) ([]waybill.Message, error) {
	given, isLast := consumer.GivenUpFrom(ctx)
	fault := Fault{Activity: s.Itinerary[s.index(t)].Activity, Reason: given.Reason, Error: given.Err, Attempts: given.Attempts}
	switch {
	case t == stuck && !consumer.Requeued(ctx):
		return nil, waybill.PermanentError(s.Failure.Reason, errors.New(s.Failure.Error))
	case isLast && t == execute:
		return s.turnBack(fault)
	case isLast:
		return s.halt(fault)
	case t == execute:
		return h.execute(ctx, tx, s)
	}
	return h.compensate(ctx, tx, s)
}

func (h *Host[Tx]) execute(ctx context.Context, tx Tx, s *state) ([]waybill.Message, error) {
	c := s.call(s.index(execute))
	a, ok := h.activities[c.Activity]
	if !ok {
		return nil, fmt.Errorf("slip: this host has no activity %q", c.Activity)
	}
	if err := a.Execute(ctx, tx, c); err != nil {
		return nil, err
	}
	return s.complete(completion{Compensable: a.Compensate != nil, Log: c.log})
}

func (h *Host[Tx]) compensate(ctx context.Context, tx Tx, s *state) ([]waybill.Message, error) {
	c := s.call(s.index(compensate))
	a, ok := h.activities[c.Activity]
	if !ok || a.Compensate == nil {
		return nil, fmt.Errorf("slip: this host has no compensation of activity %q", c.Activity)
	}
	c.Fault, c.log = s.Fault, s.Completed[c.Index].Log
	if err := a.Compensate(ctx, tx, c); err != nil {
		return nil, err
	}
	return s.compensated()
}
