package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/internal/alert"
)

// scripted is a channel that fails as long as its error is set, and hangs as long as it is to.
type scripted struct {
	mu    sync.Mutex
	err   error
	hangs bool
	tried []time.Time
	got   []string // as event:subject
}

func (c *scripted) Send(ctx context.Context, alerts []alert.Alert) error {
	c.mu.Lock()
	c.tried = append(c.tried, time.Now())
	err, hangs := c.err, c.hangs
	if err == nil && !hangs {
		for _, a := range alerts {
			c.got = append(c.got, string(a.Event)+":"+a.Subject)
		}
	}
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (c *scripted) set(err error, hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.hangs = err, hangs
}

// watching is a watcher in a bubble, whose checks find what the test sets.
type watching struct {
	*watcher
	log         bytes.Buffer
	stop        func()
	slack, mail *scripted
	duration    time.Duration // of a check

	mu      sync.Mutex
	finds   []string
	checked int
}

func newWatching(t *testing.T, file string) *watching {
	t.Helper()
	w := &watching{slack: &scripted{}, mail: &scripted{}}
	state, err := readState(file)
	if err != nil {
		t.Fatal(err)
	}
	w.watcher = &watcher{
		check: func(ctx context.Context) alert.Check {
			select {
			case <-time.After(w.duration):
			case <-ctx.Done():
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.checked++
			c := alert.Check{At: time.Now()}
			for _, subject := range w.finds {
				c.Findings = append(c.Findings, alert.Finding{Severity: "warning", Subject: subject, Found: "found", Advice: "do"})
			}
			return c
		},
		channels: map[string]channel{"slack": w.slack, "mail": w.mail}, interval: time.Minute, timeout: 15 * time.Second,
		file: file, log: slog.New(slog.NewTextHandler(&w.log, nil)), state: state.WithChannels("slack", "mail"),
	}
	return w
}

// start runs the watcher until stop is called.
func (w *watching) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	w.stop = func() { cancel(); <-done }
	synctest.Wait()
}

// finding lets the checks of some minutes find subjects.
func (w *watching) finding(minutes int, subjects ...string) {
	w.mu.Lock()
	w.finds = subjects
	w.mu.Unlock()
	<-time.After(time.Duration(minutes) * time.Minute)
	synctest.Wait()
}

func wantGot(t *testing.T, when string, c *scripted, want string) {
	t.Helper()
	if got := strings.Join(c.got, " "); got != want {
		t.Errorf("%s: delivered %q, want %q", when, got, want)
	}
}

// TestWatcher: two turns of a finding, with one channel that fails for a while, and then hangs for a while.
func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t, "")
		w.mail.set(errors.New("550"), false)
		w.start(t)
		w.finding(3, "broker")
		w.finding(3)
		wantGot(t, "the first turn", w.slack, "began:broker ended:broker")
		w.mail.set(nil, true)
		w.finding(20, "broker")
		w.finding(20)
		const both = "began:broker ended:broker began:broker ended:broker"
		wantGot(t, "the second turn", w.slack, both)
		wantGot(t, "a channel that fails and hangs", w.mail, "")
		if w.checked < 40 {
			t.Errorf("%d checks in 46 minutes: a channel that hangs holds them up", w.checked)
		}
		w.mail.set(nil, false)
		w.finding(6)
		wantGot(t, "once it is back", w.mail, both)
		for i, at := range w.mail.tried[1:] {
			if pause := at.Sub(w.mail.tried[i]); pause < 5*time.Second && i < len(w.mail.tried)-3 {
				t.Errorf("attempt %d comes %v after the one before", i+2, pause)
			}
		}
		w.stop()
		if !strings.Contains(w.log.String(), "channel=mail") || !strings.Contains(w.log.String(), "error=550") {
			t.Errorf("the log does not say what fails:\n%s", w.log.String())
		}
	})
}

// TestWatcher_Restart: with a state file nothing is announced twice, and what was not delivered is; without one
// what is found is announced once more.
func TestWatcher_Restart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	for _, tt := range []struct{ name, file, slack, mail string }{
		{"kept", file, "ended:old", "began:broker began:old ended:old"},
		{"not kept", "", "began:broker", "began:broker"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Not parallel: the file is looked at afterwards.
			synctest.Test(t, func(t *testing.T) {
				w := newWatching(t, tt.file)
				w.mail.set(errors.New("550"), false)
				w.start(t)
				w.finding(3, "broker", "old")
				w.stop()
				if !strings.Contains(w.log.String(), "alerts were not delivered") {
					t.Errorf("the log does not say that something is not delivered:\n%s", w.log.String())
				}
				next := newWatching(t, tt.file)
				next.start(t)
				next.finding(9, "broker")
				next.stop()
				wantGot(t, "slack", next.slack, tt.slack)
				wantGot(t, "mail", next.mail, tt.mail)
			})
		})
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state is %v, %v, want mode 0600", info, err)
	}
}

// TestWatcher_Stopped: a check that is cut short by the end of the program says nothing.
func TestWatcher_Stopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t, "")
		w.duration = time.Hour
		w.finds = []string{"broker"}
		w.start(t)
		time.Sleep(time.Second)
		w.stop()
		if len(w.state.Findings) != 0 {
			t.Errorf("known are %+v, want nothing", w.state.Findings)
		}
	})
}

// TestWatcher_CheckHangs: a check ends at its deadline.
func TestWatcher_CheckHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t, "")
		w.duration = 24 * time.Hour
		w.start(t)
		w.finding(10, "store")
		wantGot(t, "after ten minutes", w.slack, "began:store")
		w.stop()
	})
}

func TestState_File(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if s, err := readState(path); err != nil || !reflect.DeepEqual(s, alert.State{}) {
		t.Errorf("before it is written: %+v, %v", s, err)
	}
	s, _ := alert.State{}.WithChannels("mail").Next(alert.Check{At: night, Findings: []alert.Finding{{Subject: "broker"}}}, 1)
	for range 2 {
		if err := writeState(path, s); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readState(path); err != nil || len(got.Queues["mail"].Alerts) != 1 || !got.Findings[0].Announced {
		t.Errorf("read %+v, %v", got, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory are %v, %v, want the state alone", left, err)
	}
	if err := os.WriteFile(path, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readState(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("readState() = %v, want the path", err)
	}
	if err := writeState(filepath.Join(dir, "none", "state.json"), s); err == nil {
		t.Error("a state is written where there is no directory")
	}
}
