package interleave

import (
	"context"
	"errors"
	"fmt"
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
	// Begin makes the state that each run begins with, and returns the sessions of the run.
	Begin func(ctx context.Context) ([]Session, error)

	// Waits returns, for each session that waits for a lock, those that it waits for, by index. It
	// asks the server.
	Waits func(ctx context.Context) (map[int][]int, error)

	// End judges a run. errs has the errors of the sessions, in their order. It returns what has come
	// out, for the list of different outcomes; an error is a broken promise.
	End func(ctx context.Context, errs []error) (outcome string, err error)
}

// Result is what an exploration has visited.
type Result struct {
	Orders   int
	Outcomes map[string]int // how often each came out
	Complete bool           // no order was left out
}

// ErrAgain, from End, says that time has spoilt the run: the server has ended a session that stood still
// for longer than the session itself allows. The same order is run again.
var ErrAgain = errors.New("the run took too long")

// errElsewhere says that the same choices have led elsewhere, so that orders would be left out.
var errElsewhere = errors.New("the sessions did not repeat what they did before")

// sameTries is how often an order that has led elsewhere is run again: the server has work of its own, which
// may hold a lock for a moment. If it leads elsewhere each time it was the run before that was disturbed, and
// the search goes on from where it was.
const sameTries = 20

// pollPause is how long to wait before the server is asked again what it is waiting for.
const pollPause = 300 * time.Microsecond

// choice is a point of a run at which one of several sessions could go on.
type choice struct {
	open  []int // sessions whose requests were pending
	taken int   // which of open
}

// Explore runs a scenario in every order of the steps of its sessions, in limit orders at most. It stops
// at the first that breaks a promise; the error names the order. One exploration of a board at a time.
func (b *Board) Explore(ctx context.Context, s Scenario, limit int) (Result, error) {
	r := Result{Outcomes: make(map[string]int)}
	var path []choice
	elsewhere := 0 // tries of path
	for {
		taken, outcome, err := s.run(ctx, b, path)
		if errors.Is(err, ErrAgain) && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, errElsewhere) && ctx.Err() == nil {
			if elsewhere++; elsewhere == sameTries {
				path, elsewhere = taken, 0
			}
			continue
		}
		if err != nil {
			return r, err
		}
		elsewhere = 0
		r.Orders++
		r.Outcomes[outcome]++
		var more bool
		if path, more = next(taken); !more {
			r.Complete = true
			return r, nil
		}
		if r.Orders >= limit {
			return r, nil
		}
	}
}

// next returns the choices of the order after path: the last one that can be made otherwise is.
func next(path []choice) ([]choice, bool) {
	for i := len(path) - 1; i >= 0; i-- {
		if c := path[i]; c.taken+1 < len(c.open) {
			return append(path[:i:i], choice{c.open, c.taken + 1}), true
		}
	}
	return nil, false
}

// run runs the scenario once, with the choices of path and from there on with the first session that can
// go on. It returns all choices, when all sessions have ended.
func (s Scenario) run(ctx context.Context, b *Board, path []choice) (taken []choice, outcome string, err error) {
	sessions, err := s.Begin(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("begin: %w", err)
	}
	w := newWorld(b, sessions)
	ended := w.start(ctx)
	taken, err = w.steps(ctx, s.Waits, path)
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
func (w *world) steps(ctx context.Context, waits func(context.Context) (map[int][]int, error), path []choice) (taken []choice, err error) {
	for {
		open, err := w.rest(ctx, waits)
		if err != nil || len(open) == 0 {
			return taken, err
		}
		c := choice{open: open}
		if at := len(taken); at < len(path) {
			if !slices.Equal(path[at].open, open) {
				return taken, fmt.Errorf("%w: %v could go on, were %v", errElsewhere, open, path[at].open)
			}
			c = path[at]
		}
		taken = append(taken, c)
		w.turn(c.open[c.taken])
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
func (w *world) inState(of state) (list []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	for {
		before := w.inState(running)
		if len(before) == 0 {
			return w.inState(pending), nil
		}
		waiting, err := waits(ctx)
		if err != nil {
			return nil, err
		}
		if open := w.inState(pending); slices.Equal(before, w.inState(running)) && len(open) > 0 && standStill(before, len(w.sessions), waiting) {
			return open, nil
		}
		w.pause()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// standStill reports whether all of those that run wait, directly or not, for a session that does not:
// those that wait for each other only will be helped by the server.
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

// pause waits a moment, or until a session has changed its state.
func (w *world) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	timer := time.AfterFunc(pollPause, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer timer.Stop()
	w.changed.Wait()
}

// story says in which order the sessions made their requests.
func (w *world) story(taken []choice) string {
	names := make([]string, len(taken))
	for i, c := range taken {
		names[i] = w.sessions[c.open[c.taken]].Name
	}
	if len(names) == 0 {
		return "the beginning"
	}
	return strings.Join(names, " ")
}
