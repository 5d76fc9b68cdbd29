package main

import (
	"strings"
	"testing"
)

// TestExplore: no promise is broken in any state of small systems, and all of them are visited. Those with a
// fault have hundreds of thousands: make soak goes on to them.
func TestExplore(t *testing.T) {
	t.Parallel()
	systems := append(smalls(0), smalls(1)[0])
	for _, p := range systems {
		found := explore(p, 100_000)
		var text strings.Builder
		if !found.report(&text, p) || found.cut || found.ends == 0 {
			t.Errorf("%s", &text)
		}
	}
}

// TestExplore_Cut: a search that is cut off says so.
func TestExplore_Cut(t *testing.T) {
	t.Parallel()
	p := smalls(0)[0]
	found := explore(p, 10)
	var text strings.Builder
	if found.report(&text, p); !found.cut || !strings.Contains(text.String(), "cut off") {
		t.Errorf("report() = %q", &text)
	}
}

// TestClone: a copy of a system has the same fingerprint and shares nothing with it: what happens to it
// does not change the first one.
func TestClone(t *testing.T) {
	t.Parallel()
	e := &explorer{make(shapes)}
	s := newSystem(smalls(1)[0])
	first := fingerprint(e.shapes, s.relays[0])
	for range 30 {
		c := s.choices()[0]
		next := e.copy(s, c.relay)
		before := fingerprint(e.shapes, s.relays[0])
		if same := fingerprint(e.shapes, clone(e.shapes, s.relays[0])); same != before {
			t.Fatalf("the copy differs before %q", c.text)
		}
		c.do(next)
		if after := fingerprint(e.shapes, s.relays[0]); after != before {
			t.Fatalf("%q on the copy has changed the first one", c.text)
		}
		s = next
		if s.drained() {
			break
		}
	}
	if fingerprint(e.shapes, s.relays[0]) == first {
		t.Error("the fingerprint has not changed meanwhile")
	}
}
