package slip

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
)

// The types of the messages that make a slip continue. Their activity follows from the completed
// ones.
var (
	execute    = waybill.NewEventType[state]("waybill.slip.execute", 1)    // the first activity that is not completed
	compensate = waybill.NewEventType[state]("waybill.slip.compensate", 1) // the last completed activity
	stuck      = waybill.NewEventType[state]("waybill.slip.stuck", 1)      // the same, after its compensation has failed permanently
)

// state is the payload of these messages: the whole state of a slip.
type state struct {
	ID        string                     `json:"id"`
	Events    string                     `json:"events,omitempty"` // topic; empty for no events
	Itinerary []stop                     `json:"itinerary"`
	Completed []completion               `json:"completed,omitempty"` // of the first stops, and not compensated
	Vars      map[string]json.RawMessage `json:"vars,omitempty"`
	Fault     *Fault                     `json:"fault,omitempty"`   // why it is being compensated
	Failure   *Fault                     `json:"failure,omitempty"` // why it is stuck
}

// stop is an activity of the itinerary.
type stop struct {
	Activity string          `json:"activity"`
	Topic    string          `json:"topic"`
	Args     json.RawMessage `json:"args,omitempty"`
}

// completion is a completed activity, with the data for its compensation.
type completion struct {
	Compensable bool            `json:"compensable,omitempty"` // it has a compensation
	Log         json.RawMessage `json:"log,omitempty"`
}

// decode returns the state in a message, and the type of the message.
func decode(m *waybill.Message) (*state, waybill.EventType[state], error) {
	for _, t := range []waybill.EventType[state]{execute, compensate, stuck} {
		if m.Type != t.Type() {
			continue
		}
		s, err := t.Decode(m)
		if err == nil && !s.fits(t) {
			err = waybill.PermanentError(waybill.ReasonMalformed, errors.New("slip: there is no activity for this message"))
		}
		return &s, t, err
	}
	return nil, execute, waybill.PermanentError(waybill.ReasonUnknownType, fmt.Errorf("slip: %q is no message of a slip", m.Type))
}

// fits reports whether there is an activity for a message of the given type.
func (s *state) fits(t waybill.EventType[state]) bool {
	i := s.index(t)
	return i >= 0 && i < len(s.Itinerary) && (t != stuck || s.Failure != nil)
}

// index returns the index of the activity that a message of the given type is for.
func (s *state) index(t waybill.EventType[state]) int {
	if t == execute {
		return len(s.Completed)
	}
	return len(s.Completed) - 1
}

// position numbers the messages of a slip in their order, from 0.
func (s *state) position(t waybill.EventType[state]) int {
	n, i := len(s.Itinerary), s.index(t)
	switch t {
	case compensate:
		return n + 2*(n-1-i)
	case stuck:
		return n + 2*(n-1-i) + 1
	}
	return i
}

// message returns the message of the given type. Its id identifies the activity: a copy that is
// created later, from an earlier message, has the same id.
func (s *state) message(t waybill.EventType[state]) (waybill.Message, error) {
	i := s.index(t)
	m, err := t.New(s.Itinerary[i].Topic, *s)
	if err != nil {
		return m, err
	}
	if limit := lengthLimit(t); len(m.Payload) > limit {
		return m, invalidf("Slip", "has %d bytes as JSON, the limit is %d", len(m.Payload), limit)
	}
	s.address(&m, i)
	return m, nil
}

// lengthLimit leaves room for the faults that may be added during compensation.
func lengthLimit(t waybill.EventType[state]) int {
	switch t {
	case compensate:
		return MaxLen + faultRoom
	case stuck:
		return MaxLen + 2*faultRoom
	}
	return MaxLen
}

// address sets what all messages of the slip have in common.
func (s *state) address(m *waybill.Message, index int) {
	m.ID = fmt.Sprintf("%s/%s/%d", s.ID, m.Type, index)
	m.Key, m.Subject = s.ID, s.ID
}

// complete returns what follows an activity that was done.
func (s *state) complete(c completion) ([]waybill.Message, error) {
	done := s.event(ActivityCompleted, s.index(execute), nil)
	s.Completed = append(s.Completed, c)
	if len(s.Completed) == len(s.Itinerary) {
		return s.publish(done, s.event(SlipCompleted, s.index(compensate), nil))
	}
	return s.goOn(execute, done)
}

// turnBack returns what follows an activity that has failed permanently.
func (s *state) turnBack(f Fault) ([]waybill.Message, error) {
	s.Fault = &f
	i := s.index(execute)
	return s.back(i, s.event(ActivityFaulted, i, &f))
}

// compensated returns what follows a compensation that was done.
func (s *state) compensated() ([]waybill.Message, error) {
	i := s.index(compensate)
	s.Completed, s.Failure = s.Completed[:i], nil
	return s.back(i, s.event(ActivityCompensated, i, nil))
}

// back goes to the last activity that can be compensated, or ends the slip at the given one.
func (s *state) back(from int, e event) ([]waybill.Message, error) {
	for len(s.Completed) > 0 && !s.Completed[len(s.Completed)-1].Compensable {
		s.Completed = s.Completed[:len(s.Completed)-1]
	}
	if len(s.Completed) == 0 {
		return s.publish(e, s.event(SlipFaulted, from, s.Fault))
	}
	return s.goOn(compensate, e)
}

// halt returns what follows a compensation that has failed permanently.
func (s *state) halt(f Fault) ([]waybill.Message, error) {
	s.Failure = &f
	i := s.index(stuck)
	return s.goOn(stuck, s.event(ActivityCompensationFailed, i, &f), s.event(SlipCompensationFailed, i, &f))
}

// goOn returns the next message of the slip, and the given events.
func (s *state) goOn(t waybill.EventType[state], events ...event) ([]waybill.Message, error) {
	next, err := s.message(t)
	if err != nil {
		return nil, err
	}
	told, err := s.publish(events...)
	return slices.Insert(told, 0, next), err
}

// publish returns the messages of events, if they are wanted.
func (s *state) publish(events ...event) ([]waybill.Message, error) {
	if s.Events == "" {
		return nil, nil
	}
	msgs := make([]waybill.Message, len(events))
	for i, e := range events {
		m, err := e.kind.New(s.Events, e.Event)
		if err != nil {
			return nil, err
		}
		s.address(&m, e.Index)
		msgs[i] = m
	}
	return msgs, nil
}
