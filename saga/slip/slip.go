package slip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
)

// faultRoom is more than the size of a [Fault] in a message: its texts are bounded, and each of
// their bytes is encoded in at most six.
const faultRoom = 16 << 10

// MaxLen is how many bytes a slip may have as JSON, with all arguments, variables and logs. The
// rest of a payload is reserved for errors, so that each slip that fits can also be compensated.
const MaxLen = waybill.MaxPayloadLen - 2*faultRoom

// Slip is a list of activities to be done in order. [New] creates one. It is not safe for
// concurrent use.
type Slip struct {
	state state
	err   error // of the first argument or variable that does not encode
}

// New returns a slip without activities and with a new id.
func New() *Slip {
	return &Slip{state: state{ID: waybill.NewID(), Vars: map[string]json.RawMessage{}}}
}

// ID identifies the slip in its messages and events.
func (s *Slip) ID() string { return s.state.ID }

// Add appends an activity: its name at the host that receives the topic, and its arguments, which
// are encoded as JSON; nil for none. Only one consumer group may receive the topic: each would do
// the activity. It returns s.
func (s *Slip) Add(activity, topic string, args any) *Slip {
	at := fmt.Sprintf("Itinerary[%d].", len(s.state.Itinerary))
	raw := s.encode(at+"Args", args)
	switch {
	case activity == "":
		s.fail(invalidf(at+"Activity", "is required"))
	case len(activity) > waybill.MaxTypeLen:
		s.fail(invalidf(at+"Activity", "has %d bytes, the limit is %d", len(activity), waybill.MaxTypeLen))
	}
	s.state.Itinerary = append(s.state.Itinerary, stop{Activity: activity, Topic: topic, Args: raw})
	return s
}

// Vars sets variables, which all activities can read and set; the values are encoded as JSON.
// It returns s.
func (s *Slip) Vars(vars map[string]any) *Slip {
	for name, value := range vars {
		s.state.Vars[name] = s.encode("Vars["+name+"]", value)
	}
	return s
}

// Events sets the topic that the slip's events are published to; without one there are none. It
// returns s.
func (s *Slip) Events(topic string) *Slip {
	s.state.Events = topic
	return s
}

// Start enqueues the first message of s in tx. The error is an [*waybill.InvalidError] if there
// is no activity, a topic is not valid, an argument does not encode, or the slip is longer than
// [MaxLen]; nothing was stored then. A slip that is started twice runs once, for as long as the
// inbox of the first host remembers it.
func Start[Tx any](ctx context.Context, w *outbox.Writer[Tx], tx Tx, s *Slip) error {
	if err := s.check(); err != nil {
		return err
	}
	m, err := s.state.message(execute)
	if err != nil {
		return err
	}
	_, err = w.Enqueue(ctx, tx, m)
	return err
}

// check checks everything that could stop the slip half way.
func (s *Slip) check() error {
	switch {
	case s.err != nil:
		return s.err
	case len(s.state.Itinerary) == 0:
		return invalidf("Itinerary", "is empty; at least one activity is required")
	}
	for i, stop := range s.state.Itinerary {
		if err := checkTopic(fmt.Sprintf("Itinerary[%d].Topic", i), stop.Topic); err != nil {
			return err
		}
	}
	if s.state.Events == "" {
		return nil
	}
	return checkTopic("Events", s.state.Events)
}

// checkTopic checks whether a message could be published to a topic.
func checkTopic(field, topic string) error {
	if topic == "" {
		return invalidf(field, "is required")
	}
	m := waybill.Message{Topic: topic, Type: execute.Type()}
	m.Complete()
	var invalid *waybill.InvalidError
	if errors.As(m.Validate(), &invalid) {
		return invalidf(field, "%s", invalid.Reason)
	}
	return nil
}

func (s *Slip) encode(field string, value any) json.RawMessage {
	if value == nil {
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		s.fail(invalidf(field, "does not encode as JSON: it is a %T", value))
	}
	return raw
}

// fail keeps the first error for [Start].
func (s *Slip) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func invalidf(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "slip." + field, Reason: fmt.Sprintf(format, args...)}
}
