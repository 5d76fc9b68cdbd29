package saga

import (
	"fmt"
	"strings"
)

// The names in diagrams for states without one.
const (
	anyState  = "any state"
	noState   = "started" // no state yet
	undone    = " undone" // suffix of the name of a step: the state after its compensation
	stepFails = " fails"
)

// diagram is the text of a Mermaid state diagram.
type diagram struct {
	ids   map[string]string // of states, by name
	names strings.Builder
	edges strings.Builder
}

func newDiagram() *diagram { return &diagram{ids: make(map[string]string)} }

func (d *diagram) String() string {
	return "stateDiagram-v2\n" + d.names.String() + d.edges.String()
}

// edge draws an arrow.
func (d *diagram) edge(from, to, label string) {
	fmt.Fprintf(&d.edges, "    %s --> %s: %s\n", d.id(from), d.id(to), plain(label))
}

// id returns the id of a state in the text. Its name may have any characters, and be a keyword of
// Mermaid.
func (d *diagram) id(name string) string {
	if name == End {
		return name
	}
	if name == "" {
		name = noState
	}
	id, known := d.ids[name]
	if !known {
		id = fmt.Sprintf("s%d", len(d.ids)+1)
		d.ids[name] = id
		fmt.Fprintf(&d.names, "    state \"%s\" as %s\n", plain(name), id)
	}
	return id
}

// plain replaces the characters that have a meaning in Mermaid.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`":;#<>%`, r) {
			return '_'
		}
		return r
	}, text)
}

// Diagram returns the definition as the text of a Mermaid state diagram: the states that rules name
// in From and To, the steps, and their compensation. Kept definitions are not included.
func (s *Saga[Tx, D]) Diagram() string {
	d := newDiagram()
	for _, typ := range s.rules.names {
		s.rules.rules[typ].draw(d, typ)
	}
	for _, name := range s.timeouts.names {
		if !s.isStep(name) {
			s.timeouts.rules[name].draw(d, "timeout "+name)
		}
	}
	if len(s.steps) > 0 {
		s.drawSteps(d)
	}
	return d.String()
}

func (s *Saga[Tx, D]) isStep(timeout string) bool {
	for i := range s.steps {
		if s.steps[i].timeoutName() == timeout {
			return true
		}
	}
	return false
}

// draw draws an arrow for each pair of states of the rule.
func (r *Rule[Tx, D]) draw(d *diagram, label string) {
	if r.Missing == Start {
		for _, to := range orOne(r.To, noState) {
			d.edge(End, to, label) // it stands for the start too
		}
	}
	if r.Missing == Start && len(r.From) == 0 {
		return
	}
	for _, from := range orOne(r.From, anyState) {
		for _, to := range orOne(r.To, from) {
			d.edge(from, to, label)
		}
	}
}

func orOne(list []string, name string) []string {
	if len(list) == 0 {
		return []string{name}
	}
	return list
}

// drawSteps draws the path through the steps, and back.
func (s *Saga[Tx, D]) drawSteps(d *diagram) {
	for _, from := range s.begins() {
		d.edge(from, s.steps[0].Name, "step "+s.steps[0].Name)
		d.edge(from, End, s.steps[0].Name+stepFails)
	}
	for i := range s.steps {
		step := &s.steps[i]
		if step.Wait {
			d.edge(step.Name, s.before(i), step.Name+stepFails)
		}
		if step.Timeout > 0 {
			d.edge(step.Name, s.before(i+1), "timeout "+step.timeoutName())
		}
		if i+1 == len(s.steps) {
			d.edge(step.Name, End, string(Completed))
			continue
		}
		next := s.steps[i+1].Name
		d.edge(step.Name, next, "step "+next)
		d.edge(step.Name, s.before(i+1), next+stepFails)
	}
	for i := len(s.steps) - 1; i >= 0; i-- {
		to := s.before(i)
		switch {
		case s.steps[i].Compensate == nil:
		case to == End:
			d.edge(s.steps[i].Name+undone, to, string(Compensated))
		default:
			d.edge(s.steps[i].Name+undone, to, "undo "+strings.TrimSuffix(to, undone))
		}
	}
}

// begins returns the states in which the steps begin.
func (s *Saga[Tx, D]) begins() []string {
	var list []string
	for _, typ := range s.rules.names {
		if r := s.rules.rules[typ]; r.Missing == Start {
			for _, to := range orOne(r.To, noState) {
				if to != End {
					list = append(list, to)
				}
			}
		}
	}
	return list
}

// before returns the state of an instance that has compensated the last of its first n steps that
// has a compensation, or the end.
func (s *Saga[Tx, D]) before(n int) string {
	for n--; n >= 0; n-- {
		if s.steps[n].Compensate != nil {
			return s.steps[n].Name + undone
		}
	}
	return End
}

// DiagramOf returns the history of an instance, from its log, as the text of a Mermaid state diagram.
// Each arrow has the number of the change.
func DiagramOf(entries []Entry) string {
	d := newDiagram()
	for i, e := range entries {
		from, label := e.From, e.Note
		if i == 0 && e.Version <= 1 {
			from = End // it stands for the start too
		}
		if label == "" {
			label = e.MessageType
		}
		d.edge(from, e.To, fmt.Sprintf("%d %s", e.Version, label))
		if e.Status.Ended() || i == len(entries)-1 && e.Status != Running {
			d.edge(e.To, ending(e.Status), string(e.Status))
		}
	}
	return d.String()
}

// ending returns the target of the last arrow of an instance.
func ending(s Status) string {
	if s.Ended() {
		return End
	}
	return string(s)
}
