package saga

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
)

// Definition is a [Saga], whatever the type of its data.
type Definition[Tx any] interface {
	// about returns name and version.
	about() (string, int)

	// types returns the types of its rules, in their order.
	types() []string

	// rule returns how to find the instance of a message of this type.
	rule(typ string) (key func(m *waybill.Message) (string, error), missing Missing, ok bool)

	// handle changes an instance.
	handle(ctx context.Context, tx Tx, in Instance, d delivery) error
}

func (s *Saga[Tx, D]) about() (string, int) { return s.cfg.Name, s.cfg.Version }

func (s *Saga[Tx, D]) types() []string { return s.rules.names }

func (s *Saga[Tx, D]) rule(typ string) (key func(m *waybill.Message) (string, error), missing Missing, ok bool) {
	r := s.rules.rules[typ]
	if r == nil {
		return nil, Bury, false
	}
	return r.Key, r.Missing, true
}

// Keep lets instances that run on an older definition continue with it. No instance starts on it: a
// message without an instance, of a type that only old has a rule for, is ignored if that rule says
// so, and otherwise becomes a dead letter. It panics if old is nil, has another name, or a version
// that is not lower or is already kept or migrated.
func (s *Saga[Tx, D]) Keep(old Definition[Tx]) {
	if old == nil {
		panic("saga: there is nothing to keep")
	}
	name, version := old.about()
	if name != s.cfg.Name {
		panic(fmt.Sprintf("saga: %q keeps definitions of its own only, not of %q", s.cfg.Name, name))
	}
	s.mustBeOlder(version)
	s.all = append(s.all, old)
	slices.SortFunc(s.all, func(a, b Definition[Tx]) int { return cmp.Compare(versionOf(b), versionOf(a)) })
}

// Migrate lets fn convert an instance of an older version to this version, when the next message
// for it arrives. It may change State, and Progress.Done if the steps have changed, and
// returns the data. What it does is stored with the change by the message. It panics if fn is nil,
// or if from is not lower than this version, or is already kept or migrated.
func (s *Saga[Tx, D]) Migrate(from int, fn func(old *Instance) (D, error)) {
	if fn == nil {
		panic("saga: a function is required to migrate")
	}
	s.mustBeOlder(from)
	s.migrations[from] = fn
}

// mustBeOlder panics unless the version is older and neither kept nor migrated yet.
func (s *Saga[Tx, D]) mustBeOlder(version int) {
	_, err := s.definition(version)
	if version < 1 || version >= s.cfg.Version || err == nil {
		panic(fmt.Sprintf("saga: version %d is not older than %d, or is kept or migrated already", version, s.cfg.Version))
	}
}

func versionOf[Tx any](d Definition[Tx]) int {
	_, version := d.about()
	return version
}

// definition returns the definition for an instance of a version.
func (s *Saga[Tx, D]) definition(version int) (Definition[Tx], error) {
	if s.migrations[version] != nil {
		return s, nil
	}
	for _, d := range s.all {
		if versionOf(d) == version {
			return d, nil
		}
	}
	return nil, waybill.UnavailableError(fmt.Errorf("saga: version %d of %q is not known here", version, s.cfg.Name))
}

// data returns the data of an instance, migrated if need be.
func (s *Saga[Tx, D]) data(in *Instance) (*D, error) {
	data := new(D)
	migrate := s.migrations[in.Definition]
	if migrate == nil {
		if len(in.Data) == 0 {
			return data, nil
		}
		if err := json.Unmarshal(in.Data, data); err != nil {
			return nil, fmt.Errorf("saga: the data of the instance does not decode as %T", *data) // err may quote it
		}
		return data, nil
	}
	var err error
	if *data, err = migrate(in); err != nil {
		return nil, fmt.Errorf("migrate the instance from version %d: %w", in.Definition, err)
	}
	in.Definition = s.cfg.Version
	in.Progress.Done = min(in.Progress.Done, len(s.steps))
	return data, nil
}
