package compat

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/inbox"
)

// State says that a consumer has processed a message.
type State struct {
	MessageID, ConsumerID string

	// ProcessedAt is by the database's clock. States.TryAdd does not read it.
	ProcessedAt time.Time
}

// States is an inbox keyed by message and consumer, for one tenant. It is safe for
// concurrent use as far as tx is.
type States[Tx any] struct {
	recorder inbox.Recorder[Tx]
	tenant   string
}

// NewStates returns the states of one tenant; an empty one stands for the default. The error
// names what is missing.
func NewStates[Tx any](recorder inbox.Recorder[Tx], tenant string) (*States[Tx], error) {
	if recorder == nil {
		return nil, required("recorder")
	}
	return &States[Tx]{recorder: recorder, tenant: orDefault(tenant)}, nil
}

// Get returns the state as tx sees it, and false if there is none: the consumer has not
// processed the message, or not committed. Neither id may be blank.
func (s *States[Tx]) Get(ctx context.Context, tx Tx, messageID, consumerID string) (State, bool, error) {
	key, err := s.key(messageID, consumerID)
	if err != nil {
		return State{}, false, err
	}
	rec, found, err := s.recorder.FindRecord(ctx, tx, key)
	if err != nil || !found {
		return State{}, false, err
	}
	return State{MessageID: rec.Message, ConsumerID: rec.Consumer, ProcessedAt: rec.ProcessedAt}, true, nil
}

// TryAdd stores the state in tx, and returns true if it did not exist. If an open transaction has
// added it, TryAdd waits. False comes with [ErrAlreadyProcessed], so that a caller that checks only
// the error does not commit; after any error tx must be rolled back. Neither
// id may be blank.
func (s *States[Tx]) TryAdd(ctx context.Context, tx Tx, st State) (bool, error) {
	key, err := s.key(st.MessageID, st.ConsumerID)
	if err != nil {
		return false, err
	}
	added, err := s.recorder.AddRecord(ctx, tx, inbox.Record{Key: key, MessageID: st.MessageID})
	if err == nil && !added {
		err = ErrAlreadyProcessed
	}
	return added, err
}

func (s *States[Tx]) key(messageID, consumerID string) (inbox.Key, error) {
	switch {
	case blank(messageID):
		return inbox.Key{}, required("MessageID")
	case blank(consumerID):
		return inbox.Key{}, required("ConsumerID")
	}
	return inbox.Key{Tenant: s.tenant, Consumer: consumerID, Message: messageID}, nil
}
