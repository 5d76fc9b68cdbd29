package interleave

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// stepper makes sessions that have no server: each step is a request to nobody.
type stepper struct {
	*Board
	runs, running atomic.Int32
}

func (s *stepper) session(name string, steps func() int) Session {
	g := s.Local()
	return Session{Name: name, Gate: g, Run: func(context.Context) error {
		defer s.running.Add(-1)
		for range steps() {
			g.Step()
		}
		for range 1000 { // who does not wait for the end is first
			runtime.Gosched()
		}
		return nil
	}}
}

// explore runs two sessions of two steps each, but that the first has another number in some runs.
func (s *stepper) explore(t *testing.T, elsewhere map[int32]int) (Result, error) {
	t.Helper()
	steps := func() int {
		if n, other := elsewhere[s.runs.Load()]; other {
			return n
		}
		return 2
	}
	sessions := []Session{s.session("A", steps), s.session("B", func() int { return 2 })}
	return s.Explore(t.Context(), Scenario{
		Begin: func(context.Context) ([]Session, error) {
			if n := s.running.Swap(2); n != 0 {
				t.Errorf("%d sessions of the run before are still at work", n)
			}
			s.runs.Add(1)
			return sessions, nil
		},
		Waits: func(context.Context) (map[int][]int, error) { return nil, nil },
		End:   func(context.Context, []error) (string, error) { return "", nil },
	}, 100)
}

// TestExplore: two sessions of two steps have six orders, also if one leads elsewhere now and then; all sessions
// of a run end before the next one begins.
func TestExplore(t *testing.T) {
	t.Parallel()
	s := &stepper{Board: NewBoard()}
	r, err := s.explore(t, map[int32]int{3: 0, 4: 1})
	if err != nil || r.Orders != 6 || !r.Complete {
		t.Errorf("Explore() = %+v, %v, want 6 orders, complete", r, err)
	}
}

// TestExplore_Disturbed: the run that went another way was the first, and none of the six orders is left out.
func TestExplore_Disturbed(t *testing.T) {
	t.Parallel()
	s := &stepper{Board: NewBoard()}
	r, err := s.explore(t, map[int32]int{1: 3})
	if err != nil || r.Orders != 7 || !r.Complete {
		t.Errorf("Explore() = %+v, %v, want the 6 orders and the first run", r, err)
	}
}

// TestExplore_Limit: the orders that are run are not those that begin in the same way.
func TestExplore_Limit(t *testing.T) {
	t.Parallel()
	b := NewBoard()
	first := make(map[string]int)
	_, err := b.Explore(t.Context(), Scenario{
		Begin: func(context.Context) (sessions []Session, _ error) {
			var once sync.Once
			for _, name := range []string{"A", "B"} {
				g := b.Local()
				sessions = append(sessions, Session{Name: name, Gate: g, Run: func(context.Context) error {
					for range 5 {
						g.Step()
						once.Do(func() { first[name]++ })
					}
					return nil
				}})
			}
			return sessions, nil
		},
		Waits: func(context.Context) (map[int][]int, error) { return nil, nil },
		End:   func(context.Context, []error) (string, error) { return "", nil },
	}, 20)
	if err != nil || first["A"]+first["B"] != 20 || min(first["A"], first["B"]) < 5 {
		t.Errorf("Explore() = %v, who was first: %v, want 20 orders, at least 5 with each", err, first)
	}
}

func TestStandStill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		run   []int
		waits map[int][]int
		want  bool
	}{
		{"nobody runs", nil, nil, true},
		{"one runs", []int{1}, nil, false},
		{"one waits for one with a request", []int{1}, map[int][]int{1: {0}}, true},
		{"one waits for one that waits", []int{1, 2}, map[int][]int{1: {2}, 2: {0}}, true},
		{"two wait for each other", []int{1, 2}, map[int][]int{1: {2}, 2: {1}}, false},
		{"one waits for two, of which one runs", []int{1, 2}, map[int][]int{1: {0, 2}}, false},
		{"one waits for a stranger", []int{1}, map[int][]int{1: {-1}}, false},
	} {
		if got := standStill(tt.run, 3, tt.waits); got != tt.want {
			t.Errorf("%s: standStill() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		request []byte
		want    bool
	}{
		{"a query", []byte{9, 0, 0, 0, 3, 'S', 'E', 'L'}, true},
		{"executed", []byte{10, 0, 0, 0, 0x17, 1, 0, 0, 0}, true},
		{"prepared only", []byte{9, 0, 0, 0, 0x16, 'S'}, false},
		{"an answer to the server", []byte{9, 0, 0, 1, 3, 0}, false},
		{"nothing", nil, false},
	} {
		if got := MySQL(tt.request); got != tt.want {
			t.Errorf("%s: MySQL() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	message := func(kind byte, body string) []byte {
		return append([]byte{kind, 0, 0, 0, byte(4 + len(body))}, body...)
	}
	parse := slices.Concat(message('P', "name"), message('D', "S"), message('S', ""))
	for _, tt := range []struct {
		name    string
		request []byte
		want    bool
	}{
		{"a query", message('Q', "BEGIN"), true},
		{"prepared only", parse, false},
		{"prepared and run", slices.Concat(parse[:len(parse)-5], message('B', ""), message('E', ""), message('S', "")), true},
		{"nothing", nil, false},
		{"the beginning of a long one", []byte{'P', 0, 0, 1, 0, 'x'}, false},
		{"a size that is none", []byte{'P', 0, 0, 0, 0, 'Q', 0, 0, 0, 5, 'x'}, false},
	} {
		if got := PostgreSQL(tt.request); got != tt.want {
			t.Errorf("%s: PostgreSQL() = %v, want %v", tt.name, got, tt.want)
		}
	}
}
