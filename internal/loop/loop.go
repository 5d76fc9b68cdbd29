// Package loop keeps background loops alive: an error or panic in one round is reported, and the
// next round follows after a backoff.
package loop

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

const (
	backoffBase = 50 * time.Millisecond
	backoffMax  = 5 * time.Second
)

// Loop runs one round after the other.
type Loop struct {
	Name     string           // as reported
	Kind     string           // the name without its process-specific part; "" if there is none
	Observer observe.Observer // gets an OpLoop event for each failed round

	mu      sync.Mutex
	success time.Time
	last    error
}

// Run calls round until ctx is done. A round that fails or panics is reported and followed
// by a delay that doubles up to 5 s while rounds keep failing. An error because ctx has ended is no
// failure.
func (l *Loop) Run(ctx context.Context, round func(ctx context.Context) error) {
	l.note(nil)
	for failures := 0; ctx.Err() == nil; {
		err := Protect(func() error { return round(ctx) })
		if ctx.Err() != nil {
			return
		}
		l.note(err)
		if err == nil {
			failures = 0
			continue
		}
		l.Observer.Observe(ctx, observe.Event{Op: observe.OpLoop, Name: l.Name, Loop: cmp.Or(l.Kind, l.Name), Err: err})
		Sleep(ctx, min(backoffBase<<min(failures, 10), backoffMax))
		failures++
	}
}

func (l *Loop) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = err; err == nil {
		l.success = time.Now()
	}
}

// Health returns a [*waybill.StalledError] if the last successful round ended more than limit
// ago, or if there was none yet.
func (l *Loop) Health(limit time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.success.IsZero() {
		return &waybill.StalledError{Loop: l.Name}
	}
	if age := time.Since(l.success); age > limit {
		return &waybill.StalledError{Loop: l.Name, Age: age, Err: l.last}
	}
	return nil
}

// Protect calls fn and turns a panic into an error that says where it happened.
func Protect(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v (%s)", p, panicSite())
		}
	}()
	return fn()
}

// panicSite returns function, file and line of the panic that is being recovered from.
func panicSite() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		if panicking && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s, %s:%d", f.Function, filepath.Base(f.File), f.Line)
		}
		panicking = panicking || f.Function == "runtime.gopanic"
		if !more {
			return "unknown place"
		}
	}
}

// Sleep waits for d or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
