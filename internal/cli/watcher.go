package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/alert"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	checkTimeout = time.Minute      // of one check
	sendTimeout  = 15 * time.Second // of one delivery
)

// channel delivers alerts to people. It returns nil once they are accepted.
type channel interface {
	Send(ctx context.Context, alerts []alert.Alert) error
}

// watcher checks again and again, and delivers what is to be announced.
type watcher struct {
	check    func(ctx context.Context) alert.Check
	channels map[string]channel
	interval time.Duration
	timeout  time.Duration // of one delivery
	file     string        // of the state; "" if it is not kept
	log      *slog.Logger

	state alert.State
}

// run watches until ctx is done. A delivery that fails is repeated until then.
func (w *watcher) run(ctx context.Context) {
	for next := time.Now(); ctx.Err() == nil; {
		if !time.Now().Before(next) {
			next = time.Now().Add(w.interval)
			w.look(ctx)
		}
		w.deliver(ctx)
		until := next
		if waiting, retry := w.state.Waiting(); waiting > 0 && retry.Before(until) {
			until = retry
		}
		loop.Sleep(ctx, time.Until(until))
	}
	if waiting, _ := w.state.Waiting(); waiting > 0 {
		w.log.Warn("alerts were not delivered", "count", waiting, "kept_in", w.file)
	}
}

// look runs one check, and queues what is to be announced.
func (w *watcher) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := w.check(limited)
	if ctx.Err() != nil { // what it has found is that it was stopped
		return
	}
	var alerts []alert.Alert
	w.state, alerts = w.state.Next(c, alert.Holds)
	for _, a := range alerts {
		w.log.Info("alert", "event", a.Event, "severity", a.Severity, "subject", a.Subject, "about", clean(a.About))
	}
	if len(alerts) > 0 {
		w.save()
	}
}

// deliver tries each channel that has something to deliver, once.
func (w *watcher) deliver(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(w.channels)) {
		q := w.state.Queues[name]
		due := q.Due(time.Now())
		if len(due) == 0 || ctx.Err() != nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, w.timeout)
		err := w.channels[name].Send(limited, due)
		cancel()
		if err != nil {
			q = q.Failed(time.Now())
			w.log.Warn("alerts are not delivered", "channel", name, "count", len(due), "failures", q.Failures, "error", clean(err.Error()))
		} else {
			q = q.Delivered()
			w.log.Info("alerts are delivered", "channel", name, "count", len(due))
		}
		w.state = w.state.With(name, q)
		w.save()
	}
}

// save keeps the state. If that fails, it is in memory only.
func (w *watcher) save() {
	if err := writeState(w.file, w.state); err != nil {
		w.log.Error("the state is not kept: after a restart alerts are announced once more", "error", err)
	}
}

// readState reads the state of a watcher; one that was never written, or not to be kept, is empty.
func readState(path string) (s alert.State, err error) {
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s is no state of waybill watch: %w", path, err)
	}
	return s, nil
}

// writeState replaces the file as a whole, readable by its owner only.
func writeState(path string, s alert.State) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is of no use
	}
	return err
}
