package waybilltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/waybill-go/waybill/store/memstore"
)

var (
	errCrashed = errors.New("waybilltest: the process has crashed")
	errLost    = errors.New("waybilltest: the connection was lost")
)

// fault is a fault that is injected at a step, before it is done.
type fault int

const (
	noFault fault = iota
	crash         // the process ends: every later step fails, and no delivery is acknowledged
	lost          // the connection ends: the transaction fails, the process continues
)

func (f fault) String() string { return [...]string{"nothing", "crash", "connection lost"}[f] }

func (f fault) err() error { return [...]error{nil, errCrashed, errLost}[f] }

// Faults counts the steps of running deliveries and injects a fault at one of them. A [Kit] and
// each trial of a [Check] have their own. It is safe for concurrent use.
type Faults struct {
	mu       sync.Mutex
	armed    fault // what will be injected; noFault if nothing will, or it has been
	ahead    int   // steps before that
	taken    int   // steps so far
	dead     bool  // the process has crashed
	running  int   // running deliveries
	onCrash  func()
	schedule []string // what happened, for the report
	closers  []func() error
}

// Step reports that a delivery is about to do something, such as a call of another system. A fake
// of that system calls it before the effect, which must not happen if Step returns an error, and
// after it too if the answer can be lost. The name appears in reports. Outside of a
// delivery it does nothing and returns nil.
func (f *Faults) Step(name string) error {
	struck, die := f.take(name)
	if die != nil {
		die()
	}
	return struck.err()
}

// take counts a step. It returns the fault to inject there, and the function to call if it ends the
// process.
func (f *Faults) take(name string) (fault, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.running == 0:
		return noFault, nil
	case f.dead:
		return crash, nil
	case f.armed == noFault || f.ahead > 0:
		f.ahead--
		f.taken++
		f.schedule = append(f.schedule, "  "+name)
		return noFault, nil
	}
	struck := f.armed
	f.armed, f.dead = noFault, struck == crash
	f.schedule = append(f.schedule, fmt.Sprintf("  %s before: %s", strings.ToUpper(struck.String()), name))
	if struck == crash {
		return crash, f.onCrash
	}
	return struck, nil
}

// arm injects what after the given number of steps.
func (f *Faults) arm(what fault, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.ahead = what, after
}

// disarm cancels a fault that was armed and not yet injected, and reports whether there was one.
func (f *Faults) disarm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := f.armed != noFault
	f.armed = noFault
	return waiting
}

// begin records that a delivery begins. The caller calls end after it.
func (f *Faults) begin(line string) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	f.schedule = append(f.schedule, line)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.running--
	}
}

// note adds a line to the schedule.
func (f *Faults) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.schedule = append(f.schedule, fmt.Sprintf(format, args...))
}

// steps returns how many were taken.
func (f *Faults) steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken
}

// busy reports whether a delivery is running.
func (f *Faults) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running > 0
}

// crashWith sets what a crash calls.
func (f *Faults) crashWith(end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onCrash = end
}

// crashed reports whether the process has crashed.
func (f *Faults) crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// revive starts a new process.
func (f *Faults) revive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = false
}

// MemStore returns a new, empty store in memory. Its steps are those of
// [memstore.WithSteps].
func (f *Faults) MemStore(options ...memstore.Option) *memstore.Store {
	return memstore.New(append(options, memstore.WithSteps(f.Step))...)
}

// closeAll closes what was opened, the last first.
func (f *Faults) closeAll() error {
	f.mu.Lock()
	closers := f.closers
	f.closers = nil
	f.mu.Unlock()
	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i]())
	}
	return errors.Join(errs...)
}
