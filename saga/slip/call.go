package slip

import (
	"encoding/json"
	"fmt"

	"github.com/waybill-go/waybill"
)

// Call is the input and output of an activity. It is valid during the call and is not safe for
// concurrent use. What does not decode is a permanent error, reason malformed, which does not quote
// it.
type Call struct {
	Slip     string // id of the slip
	Activity string // its name
	Index    int    // of the activity in the itinerary, from 0
	Fault    *Fault // why the slip is being compensated; nil in Execute

	args, log json.RawMessage
	vars      map[string]json.RawMessage // of the state
}

// call returns the Call for the activity at the given index.
func (s *state) call(index int) *Call {
	if s.Vars == nil {
		s.Vars = make(map[string]json.RawMessage)
	}
	stop := s.Itinerary[index]
	return &Call{Slip: s.ID, Activity: stop.Activity, Index: index, args: stop.Args, vars: s.Vars}
}

// Args decodes the arguments into v, a pointer. Without arguments v is unchanged.
func (c *Call) Args(v any) error { return c.decode("the arguments", c.args, v) }

// Log decodes what Execute has stored with [Call.SetLog] into v, a pointer. Without a log v is
// unchanged.
func (c *Call) Log(v any) error { return c.decode("the log", c.log, v) }

// Var decodes a variable into v, a pointer, and reports whether there is one of that name.
func (c *Call) Var(name string, v any) (bool, error) {
	raw, ok := c.vars[name]
	if !ok {
		return false, nil
	}
	return true, c.decode("a variable", raw, v)
}

// SetVar sets a variable for the activities that run after this one, forwards and in compensation.
// It is discarded if the call returns an error.
func (c *Call) SetVar(name string, v any) error {
	raw, err := c.encode("a variable", v)
	if err == nil {
		c.vars[name] = raw
	}
	return err
}

// SetLog stores v for the compensation of this activity only. Of several calls the last counts. In
// Compensate it has no effect.
func (c *Call) SetLog(v any) error {
	raw, err := c.encode("the log", v)
	if err == nil {
		c.log = raw
	}
	return err
}

func (c *Call) decode(what string, raw json.RawMessage, v any) error {
	if raw == nil || json.Unmarshal(raw, v) == nil {
		return nil
	}
	return waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("slip: %s of activity %q: not the JSON of a %T", what, c.Activity, v))
}

func (c *Call) encode(what string, v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		err = waybill.PermanentError(waybill.ReasonMalformed, fmt.Errorf("slip: %s of activity %q: encode %T: %w", what, c.Activity, v, err))
	}
	return raw, err
}
