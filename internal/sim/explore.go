package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// explored is what a search has found.
type explored struct {
	states, transitions, ends int
	deepest                   int
	cut                       bool // by the limit of states
	broken                    error
	story                     []string // what led to it
}

// path is how a state was reached.
type path struct {
	before *path
	text   string
	depth  int
}

func (p *path) story() (list []string) {
	for ; p != nil; p = p.before {
		list = append(list, p.text)
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// explore visits every state of a small system once, up to limit states. It ends at the first broken
// promise.
func explore(p *small, limit int) explored {
	type visit struct {
		s  *system
		at *path
	}
	found, e := explored{}, &explorer{make(shapes)}
	seen := make(map[print128]struct{})
	first := newSystem(p)
	e.print(first, -1, 0)
	stack := []visit{{first, nil}}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		list := v.s.choices()
		for _, c := range list {
			next := e.copy(v.s, c.relay)
			before := len(next.relays)
			c.do(next)
			if c.fault {
				next.faults--
			}
			found.transitions++
			at := &path{v.at, c.text, 1}
			if v.at != nil {
				at.depth += v.at.depth
			}
			found.deepest = max(found.deepest, at.depth)
			if next.broken == nil && next.drained() {
				next.check(next.ledger.end(next.store, len(p.keys), func(string) []string { return p.dests }))
				found.ends++
			}
			if next.broken != nil {
				found.broken, found.story = next.broken, at.story()
				return found
			}
			key := e.print(next, c.relay, before)
			if _, known := seen[key]; known || next.drained() {
				continue
			}
			seen[key] = struct{}{}
			if len(seen) >= limit {
				found.cut, found.states = true, len(seen)
				return found
			}
			stack = append(stack, visit{next, at})
		}
		if len(list) == 0 {
			found.broken, found.story = fmt.Errorf("nothing can happen, and not everything is drained"), v.at.story()
			return found
		}
	}
	found.states = len(seen) + 1
	return found
}

// explorer copies and prints states.
type explorer struct{ shapes shapes }

// copy returns a copy of a system in which one relay may be changed, and everything except the other
// relays.
func (e *explorer) copy(s *system, relay int) *system {
	next := *s
	next.store, next.ledger = clone(e.shapes, s.store), clone(e.shapes, s.ledger)
	next.relays, next.news, next.coming = slices.Clone(s.relays), slices.Clone(s.news), slices.Clone(s.coming)
	if relay >= 0 {
		next.relays[relay] = clone(e.shapes, s.relays[relay])
	}
	return &next
}

// outside is the part of a system that belongs to no relay.
type outside struct {
	now    relaycore.Time
	store  *store
	ledger *ledger
	news   []bool
	coming []row
	moves  int
	faults int
	relays []print128
}

// print returns the number of a state after a choice has changed a relay.
func (e *explorer) print(s *system, relay, before int) print128 {
	o := outside{s.now, s.store, s.ledger, s.news, s.coming, s.moves, s.faults, nil}
	for i, r := range s.relays {
		if i == relay || i >= before {
			r.print = fingerprint(e.shapes, r)
		}
		o.relays = append(o.relays, r.print)
	}
	return fingerprint(e.shapes, &o)
}

// smalls are the systems that are explored.
func smalls(faults int) (list []*small) {
	for _, p := range []small{
		{name: "two messages of a key", lanes: 1, keys: []string{"a", "a"}, batch: 3},
		{name: "one lane, batches", lanes: 1, keys: []string{"a", "b", "a"}, batch: 3},
		{name: "one key", lanes: 1, keys: []string{"a", "a", "a"}, batch: 3},
		{name: "one lane, strict", lanes: 1, keys: []string{"a", "b", "a"}, batch: 3, strict: true},
		{name: "two lanes, batches", lanes: 2, keys: []string{"a", "b", "a"}, batch: 3},
		{name: "one lane, park", lanes: 1, keys: []string{"a", "b", "a"}, batch: 1, order: 1},
	} {
		p.relays, p.later, p.faults, p.moves, p.attempts, p.dests, p.stops = 2, 1, faults, 1, 1, []string{""}, true
		list = append(list, &p)
	}
	return list
}

const longestStory = 60 // steps

// report prints what a search has found, and reports whether no promise was broken.
func (e *explored) report(w io.Writer, p *small) bool {
	state := "complete"
	switch {
	case e.broken != nil:
		state = "a promise is broken: " + e.broken.Error()
	case e.cut:
		state = "cut off"
	}
	fmt.Fprintf(w, "%s, %d faults: %d states, %d transitions, up to %d steps, %s\n", p.name, p.faults, e.states, e.transitions, e.deepest, state)
	if e.broken != nil {
		if skipped := len(e.story) - longestStory; skipped > 0 {
			e.story = append([]string{fmt.Sprintf("(%d steps before)", skipped)}, e.story[skipped:]...)
		}
		fmt.Fprintln(w, "  "+strings.Join(e.story, "\n  "))
	}
	return e.broken == nil
}
