package interleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Session is what one party of a scenario does.
type Session struct {
	Name string
	Gate *Gate
	Run  func(ctx context.Context) error
}

// Scenario is what is explored. Explore calls its functions one after the other.
type Scenario struct {
	// Begin creates the state that each run starts from, and returns the sessions of the run.
	Begin func(ctx context.Context) ([]Session, error)

	// Waits returns, for each session that waits for a lock, those that it waits for, by index. It
	// asks the server.
	Waits func(ctx context.Context) (map[int][]int, error)

	// End judges a run. errs has the errors of the sessions, in their order. It returns the outcome, for the
	// list of different outcomes; an error is a broken promise.
	End func(ctx context.Context, errs []error) (outcome string, err error)
}

// Result is what an exploration has visited.
type Result struct {
	Orders   int
	Outcomes map[string]int // how often each occurred
	Complete bool           // no order was left out
}

// ErrAgain, from End, says that the run took too long: the server has ended a session that was idle for longer
// than its settings allow. The same order is run again.
var ErrAgain = errors.New("the run took too long")

// errElsewhere says that the same choices have led to another state, so that orders would be left out.
var errElsewhere = errors.New("the sessions did not repeat what they did before")

// sameTries is how often a point that was reached in another state than before is tried again: the server has
// background work, which may hold a lock for a moment. If it differs each time the previous run was disturbed,
// and the point is taken as it is now.
const sameTries = 20

// pollPause is how long sessions may run before the server is asked what they are waiting for.
const pollPause = 500 * time.Microsecond

// point is a point of a run at which one of several sessions can go on.
type point struct {
	open  []int // sessions whose requests are pending
	left  []int // those of open below which there are orders that were not run
	next  map[int]*point
	other int // how often in a row the choices that led here have led to another state
}

func newPoint(open []int) *point {
	return &point{open: open, left: slices.Clone(open), next: make(map[int]*point)}
}

// choice is what was chosen at a point.
type choice struct {
	at    *point
	taken int // session
}

// tree holds the orders that were run, as far as others branch off from them.
type tree struct {
	root *point
	draw *rand.Rand
}

// at returns the point after the choices of a run, where open are pending; at its end none is.
func (t *tree) at(taken []choice, open []int) (*point, error) {
	p := t.root
	if len(taken) > 0 {
		last := taken[len(taken)-1]
		p = last.at.next[last.taken]
	}
	switch {
	case p == nil:
	case slices.Equal(p.open, open):
		p.other = 0
		return p, nil
	case p.other+1 < sameTries:
		p.other++
		return nil, fmt.Errorf("%w: %v could go on, were %v", errElsewhere, open, p.open)
	}
	p = newPoint(open)
	if len(taken) == 0 {
		t.root = p
	} else {
		last := taken[len(taken)-1]
		last.at.next[last.taken] = p
	}
	return p, nil
}

// ran records that the order of a run need not be run again. It reports whether another is left.
func (t *tree) ran(taken []choice) bool {
	for _, c := range slices.Backward(taken) {
		delete(c.at.next, c.taken)
		c.at.left = slices.DeleteFunc(c.at.left, func(s int) bool { return s == c.taken })
		if len(c.at.left) > 0 {
			return true
		}
	}
	return false
}

// Explore runs a scenario in every order of the steps of its sessions, in limit orders at most; which these are is
// drawn, the same ones each time. It stops at the first that breaks a promise; the error names the order. A
// board runs only one exploration at once.
func (b *Board) Explore(ctx context.Context, s Scenario, limit int) (Result, error) {
	r := Result{Outcomes: make(map[string]int)}
	orders := &tree{draw: rand.New(rand.NewPCG(1, 1))}
	for r.Orders < limit {
		taken, outcome, err := s.run(ctx, b, orders)
		if (errors.Is(err, ErrAgain) || errors.Is(err, errElsewhere)) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return r, err
		}
		r.Orders++
		r.Outcomes[outcome]++
		if !orders.ran(taken) {
			r.Complete = true
			break
		}
	}
	return r, nil
}

// run runs the scenario once, in an order that was not run yet. It returns its choices when all sessions have ended.
func (s Scenario) run(ctx context.Context, b *Board, orders *tree) (taken []choice, outcome string, err error) {
	sessions, err := s.Begin(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("begin: %w", err)
	}
	w := newWorld(b, sessions)
	ended := w.start(ctx)
	taken, err = w.steps(ctx, s.Waits, orders)
	w.release()
	errs := ended()
	if err == nil {
		outcome, err = s.End(ctx, errs)
	}
	if err != nil {
		return taken, "", fmt.Errorf("after %s: %w", w.story(taken), err)
	}
	return taken, outcome, nil
}

// world holds the sessions of one run.
type world struct {
	*Board
	sessions []Session
	errs     []error
	ended    sync.WaitGroup
}

func newWorld(b *Board, sessions []Session) *world {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sessions {
		s.Gate.state, s.Gate.held = running, true
	}
	return &world{Board: b, sessions: sessions, errs: make([]error, len(sessions))}
}

// start starts all sessions. The function that it returns waits for their ends.
func (w *world) start(ctx context.Context) func() []error {
	for i, s := range w.sessions {
		w.ended.Go(func() {
			err := s.Run(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs[i], s.Gate.state = err, idle
			w.changed.Broadcast()
		})
	}
	return func() []error {
		w.ended.Wait()
		return w.errs
	}
}

// steps lets the sessions make their requests until all have ended, and returns the choices that it has made.
func (w *world) steps(ctx context.Context, waits func(context.Context) (map[int][]int, error), orders *tree) (taken []choice, err error) {
	for {
		open, err := w.rest(ctx, waits)
		if err != nil {
			return taken, err
		}
		at, err := orders.at(taken, open)
		if err != nil || len(open) == 0 {
			return taken, err
		}
		c := choice{at, at.left[orders.draw.IntN(len(at.left))]}
		taken = append(taken, c)
		w.turn(c.taken)
	}
}

// turn lets a session make its request.
func (w *world) turn(session int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[session].Gate.state = running
	w.changed.Broadcast()
}

// release lets everything pass again.
func (w *world) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		s.Gate.held = false
	}
	w.changed.Broadcast()
}

// inState returns the sessions in a state.
func (w *world) inState(of state) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found(of)
}

// found is inState for callers that hold the lock.
func (w *world) found(of state) (list []int) {
	for i, s := range w.sessions {
		if s.Gate.state == of {
			list = append(list, i)
		}
	}
	return list
}

// rest waits until each session has ended, has a request pending, or waits in the server for one of
// those that have. It returns those with a request.
func (w *world) rest(ctx context.Context, waits func(context.Context) (map[int][]int, error)) ([]int, error) {
	for ctx.Err() == nil {
		run := w.inState(running)
		if len(run) == 0 {
			return w.inState(pending), nil
		}
		if w.pause(run) { // most requests are answered at once
			continue
		}
		waiting, err := waits(ctx)
		if err != nil {
			return nil, err
		}
		if open := w.inState(pending); slices.Equal(run, w.inState(running)) && len(open) > 0 && standStill(run, len(w.sessions), waiting) {
			return open, nil
		}
	}
	return nil, ctx.Err()
}

// standStill reports whether all of those that run wait, directly or not, for a session that does not: a
// deadlock among themselves is resolved by the server.
func standStill(run []int, sessions int, waiting map[int][]int) bool {
	var still []int
	for i := range sessions {
		if !slices.Contains(run, i) {
			still = append(still, i)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, r := range run {
			if on := waiting[r]; !slices.Contains(still, r) && len(on) > 0 && !slices.ContainsFunc(on, func(o int) bool { return !slices.Contains(still, o) }) {
				still, grown = append(still, r), true
			}
		}
	}
	return len(still) == sessions
}

// pause waits a moment, or until others than those of run are running, which it reports.
func (w *world) pause(run []int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	over := false
	timer := time.AfterFunc(pollPause, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		over = true
		w.changed.Broadcast()
	})
	defer timer.Stop()
	for !over && slices.Equal(run, w.found(running)) {
		w.changed.Wait()
	}
	return !slices.Equal(run, w.found(running))
}

// story describes the order in which the sessions made their requests.
func (w *world) story(taken []choice) string {
	names := make([]string, len(taken))
	for i, c := range taken {
		names[i] = w.sessions[c.taken].Name
	}
	if len(names) == 0 {
		return "the beginning"
	}
	return strings.Join(names, " ")
}
