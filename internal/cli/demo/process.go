package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// task is what a child process receives on its standard input.
type task struct {
	Site     Site
	Orders   int
	Break    string
	DieAfter int // 0 for never
}

// roles are what a child process can be.
var roles = map[string]func(context.Context, task) error{
	"shop":  runShop,
	"relay": runRelay,
}

// Child is the main function of a child process, which only the demo itself starts: its own
// program with the arguments "demo shop" or "demo relay". It ends when its standard input does, so that it
// never outlives its parent. The servers are those of the parent's [Config].
func Child(ctx context.Context, role string, stdin io.Reader, servers Servers) error {
	run := roles[role]
	if run == nil {
		return fmt.Errorf("there is no role %q", role)
	}
	var t task
	decoder := json.NewDecoder(stdin)
	if err := decoder.Decode(&t); err != nil {
		return errors.New("this is a part of the demo; run: waybill demo")
	}
	t.Site.others = servers
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until it ends
		cancel()
	}()
	if err := run(ctx, t); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// worker runs a role in one child process after the other.
type worker struct {
	role   string
	task   task
	lives  []int // DieAfter of each process
	died   func()
	deaths int

	done   chan struct{} // closed when the last process has ended
	failed chan struct{} // closed when one has failed
	err    error         // why
}

func newWorker(role string, t task) *worker {
	return &worker{role: role, task: t, done: make(chan struct{}), failed: make(chan struct{})}
}

// plan makes the worker die the given number of times, each time after dieAfter actions, and then live.
func (w *worker) plan(deaths, dieAfter int) {
	for range deaths {
		w.lives = append(w.lives, dieAfter)
	}
	w.lives = append(w.lives, 0)
}

// run starts process after process until one has succeeded or ctx is done.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	for _, dieAfter := range w.lives {
		w.task.DieAfter = dieAfter
		killed, err := w.live(ctx)
		if err != nil {
			w.err = fmt.Errorf("%s: %w", w.role, err)
			close(w.failed)
			return
		}
		if !killed || ctx.Err() != nil {
			return
		}
		w.deaths++
		w.died()
	}
}

func (w *worker) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// childGrace is how long a process that is asked to end may take.
const childGrace = 20 * time.Second

// live runs one process and reports whether it was killed. It is asked to end, by the end of
// its input, when ctx is done.
func (w *worker) live(ctx context.Context) (killed bool, _ error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "demo", w.role)
	cmd.Stderr = &complaint
	cmd.Env = withoutOptions(os.Environ())
	input, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	cmd.Cancel, cmd.WaitDelay = input.Close, childGrace
	if err := cmd.Start(); err != nil {
		return false, err
	}
	told := json.NewEncoder(input).Encode(w.task) // fails only if the process has ended
	err = cmd.Wait()
	text := strings.TrimSpace(complaint.String())
	switch {
	case err == nil || ctx.Err() != nil:
		return false, nil
	case text != "":
		return false, errors.New(strings.TrimPrefix(text, "waybill: "))
	case told != nil:
		return false, fmt.Errorf("tell the process what to do: %w", told)
	}
	return true, nil // a process that fails says why; one that is killed can't
}

// withoutOptions drops the options of the program, which the child does not need.
func withoutOptions(env []string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, "WAYBILL_") {
			kept = append(kept, entry)
		}
	}
	return kept
}
