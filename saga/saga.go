package saga

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/schedule"
)

const (
	maxNameLen  = waybill.MaxConsumerLen // of a saga, in bytes
	maxStateLen = 200                    // of a state or a timeout, in bytes
	maxStepLen  = 190                    // of a step, in bytes: with a suffix it names a state
)

// Config configures a [Saga].
type Config struct {
	// Name is the saga's stable name, part of the ID of each instance. At most
	// [waybill.MaxConsumerLen] bytes. Required.
	Name string

	// Version is the version of the definition, 1 and up. Raise it when running instances could not
	// continue with the changed rules or steps; see [Saga.Keep] and [Saga.Migrate]. Optional; the
	// default is 1.
	Version int

	// Source names the service in messages that name no source themselves; see
	// [outbox.Config]. Required.
	Source string

	// Topic is where an instance sends the messages for its next step, and its timeouts. The consumer
	// of the saga subscribes to it, and no other saga does. Required.
	Topic string

	// Node names this process in the log of instances. At most [waybill.MaxIDLen] bytes. Optional.
	Node string

	// Lock locks an instance while a message changes it, instead of repeating the handler of a
	// concurrent message. Optional; see docs/sagas.md.
	Lock bool

	// Observer receives changes of instances, and enqueued messages. Optional; the
	// default logs to slog.Default.
	Observer observe.Observer
}

// Saga is a definition: how the messages of a process change an instance, whose data is a D. D is
// kept as JSON. Register everything before the first message is handled; after that a saga is safe
// for concurrent use.
type Saga[Tx, D any] struct {
	store      Store[Tx]
	cfg        Config
	writer     *outbox.Writer[Tx]
	scheduler  *schedule.Scheduler[Tx]
	rules      table[Tx, D] // by type of message
	timeouts   table[Tx, D] // by name
	steps      []Step[Tx, D]
	onEnd      func(ctx context.Context, c *Context[Tx, D]) error
	all        []Definition[Tx] // this one and kept ones, the newest first
	migrations map[int]func(old *Instance) (D, error)
}

// New returns a saga without rules over store. The error is an [*waybill.InvalidError] that names
// what is missing or wrong.
func New[Tx, D any](store Store[Tx], cfg Config) (*Saga[Tx, D], error) {
	if store == nil {
		return nil, invalid("store", "is required")
	}
	if cfg.Version == 0 {
		cfg.Version = 1
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Saga[Tx, D]{
		store: store, cfg: cfg, migrations: make(map[int]func(*Instance) (D, error)),
		rules: newTable[Tx, D](), timeouts: newTable[Tx, D](),
	}
	s.all = []Definition[Tx]{s}
	var err error
	if s.writer, err = outbox.NewWriter[Tx](store, outbox.Config{Source: cfg.Source, Observer: cfg.Observer}); err != nil {
		return nil, err
	}
	s.scheduler, err = schedule.NewScheduler(store, schedule.Config{Source: cfg.Source, Observer: cfg.Observer})
	return s, err
}

func (c *Config) validate() error {
	for _, f := range []struct {
		field, value string
		limit        int
		required     bool
	}{
		{"Name", c.Name, maxNameLen, true},
		{"Source", c.Source, waybill.MaxSourceLen, true},
		{"Topic", c.Topic, waybill.MaxTopicLen, true},
		{"Node", c.Node, waybill.MaxIDLen, false},
	} {
		switch {
		case f.required && f.value == "":
			return invalid("Config."+f.field, "is required")
		case len(f.value) > f.limit:
			return invalid("Config."+f.field, fmt.Sprintf("has %d bytes, the limit is %d", len(f.value), f.limit))
		case !utf8.ValidString(f.value):
			return invalid("Config."+f.field, "is not UTF-8 text")
		}
	}
	if c.Version < 1 {
		return invalid("Config.Version", fmt.Sprintf("is %d, it must be positive", c.Version))
	}
	return nil
}

// table holds rules in the order in which they were added.
type table[Tx, D any] struct {
	rules map[string]*Rule[Tx, D]
	names []string
}

func newTable[Tx, D any]() table[Tx, D] { return table[Tx, D]{rules: make(map[string]*Rule[Tx, D])} }

// add panics if there is a rule of that name, or if a name is invalid.
func (t *table[Tx, D]) add(name string, r Rule[Tx, D]) {
	if r.Do == nil {
		panic(fmt.Sprintf("saga: the rule for %q has no Do", name))
	}
	if t.rules[name] != nil {
		panic(fmt.Sprintf("saga: there are two rules for %q", name))
	}
	for _, state := range slices.Concat(r.From, r.To) {
		mustName("state", state, maxStateLen)
	}
	t.rules[name] = &r
	t.names = append(t.names, name)
}

// mustName panics if a name of the definition is empty or too long.
func mustName(what, name string, limit int) {
	if name == "" || len(name) > limit || !utf8.ValidString(name) {
		panic(fmt.Sprintf("saga: the name of a %s is empty, longer than %d bytes, or no UTF-8: %q", what, limit, name))
	}
}

// On adds the rule for messages whose Type is exactly typ. It panics if typ is empty, one of the
// engine's own, or has a rule already; if Key or Do is nil, or if the name of a state is empty or
// longer than 200 bytes.
func (s *Saga[Tx, D]) On(typ string, r Rule[Tx, D]) {
	if typ == "" || typ == stepType || typ == timeoutType || r.Key == nil {
		panic(fmt.Sprintf("saga: the rule for %q needs a type of its own and a Key", typ))
	}
	s.rules.add(typ, r)
}

// OnTimeout adds the rule for a timeout, whose message has no payload. It panics if
// name is empty, longer than 200 bytes or has a rule already, if Key or Missing is set, if Do is
// nil, or if the name of a state is wrong.
func (s *Saga[Tx, D]) OnTimeout(name string, r Rule[Tx, D]) {
	mustName("timeout", name, maxStateLen)
	if r.Key != nil || r.Missing != Bury {
		panic(fmt.Sprintf("saga: the timeout %q belongs to the instance that has set it; Key and Missing are not for it", name))
	}
	s.timeouts.add(name, r)
}

// Steps sets the steps, in order. They begin when a message starts the instance, and the instance completes
// after the last one. It panics if there are none or were set before, if two have the same name, if a step
// has no name or one longer than 190 bytes, no Execute, or a negative Timeout or one without Wait.
func (s *Saga[Tx, D]) Steps(steps ...Step[Tx, D]) {
	if len(steps) == 0 || s.steps != nil {
		panic("saga: steps are set once, and there is at least one")
	}
	for i := range steps {
		step := &steps[i]
		mustName("step", step.Name, maxStepLen)
		if step.Execute == nil || step.Timeout < 0 || step.Timeout > 0 && !step.Wait {
			panic(fmt.Sprintf("saga: the step %q needs Execute, and Timeout needs Wait and is positive", step.Name))
		}
		s.timeouts.add(step.timeoutName(), Rule[Tx, D]{Do: s.late(step)}) // two of one name panic here
	}
	s.steps = steps
}

// OnEnd sets a function that runs in the transaction that ends an instance, completed or
// compensated, for example to publish the result. It panics if fn is nil or one was set before.
func (s *Saga[Tx, D]) OnEnd(fn func(ctx context.Context, c *Context[Tx, D]) error) {
	if fn == nil || s.onEnd != nil {
		panic("saga: OnEnd is set once, and not to nil")
	}
	s.onEnd = fn
}

// Types returns the types of the messages that [Saga.Handle] accepts, those of kept definitions
// included. Use them to register a saga in a consumer.Mux.
func (s *Saga[Tx, D]) Types() []string {
	list := []string{stepType, timeoutType}
	seen := make(map[string]bool)
	for _, d := range s.all {
		for _, typ := range d.types() {
			if !seen[typ] {
				seen[typ] = true
				list = append(list, typ)
			}
		}
	}
	return list
}
