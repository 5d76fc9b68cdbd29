package recording

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// TestReplay: what was recorded leads to the same commands, from wherever the file begins.
func TestReplay(t *testing.T) {
	t.Parallel()
	restarts := 0
	for seed := range uint64(10) {
		file := &memory{}
		d := newDriver(seed, record(file, minHalf, seed%2 == 0))
		d.run(2000)
		if err := d.w.Close(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		totals, last := replayed(t, file)
		if last != d.steps {
			t.Errorf("seed %d: the last step is %d, want %d", seed, last, d.steps)
		}
		if totals.Steps < 100 || len(file.data) > firstHalf+2*minHalf {
			t.Errorf("seed %d: %d steps are in %d bytes", seed, totals.Steps, len(file.data))
		}
		restarts += totals.Restarts
	}
	if restarts < 20 {
		t.Errorf("%d restarts, want segments to end", restarts)
	}
}

// TestReplay_Diverged: a command that the relay did not carry out, or carried out besides, is found in
// the step where that was.
func TestReplay_Diverged(t *testing.T) {
	t.Parallel()
	file, at := &memory{}, uint64(0)
	d := newDriver(1, record(file, 1<<20, false))
	d.tamper = func(step uint64, commands []relaycore.Command) []relaycore.Command {
		if step > 300 && at == 0 && len(commands) > 1 {
			at = step
			return commands[1:]
		}
		return commands
	}
	d.run(1000)
	_ = d.w.Close()
	_, err := Replay(file, func(*Step) error { return nil })
	var diverged *DivergedError
	if !errors.As(err, &diverged) || diverged.Step != at {
		t.Errorf("Replay() = %v, want that it diverges in step %d", err, at)
	}
}

// TestWriter_Secrets: keys, tenants and texts of errors are in no file, but for keys and tenants where
// that was asked for. Ids are.
func TestWriter_Secrets(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		file := &memory{}
		d := newDriver(3, record(file, 4<<20, plain))
		d.run(2000)
		_ = d.w.Close()
		for text, want := range map[string]bool{
			"swordfish": false, "no such customer": false, "customer-": plain, "tenant-": plain, "order 7": true, "\x01\x98\xc0\xde": true,
		} {
			if got := bytes.Contains(file.data, []byte(text)); got != want {
				t.Errorf("plain keys: %v: %q is in the file: %v, want %v", plain, text, got, want)
			}
		}
		replayed(t, file)
	}
}

// TestWriter_Fails: a file that cannot be written, or not fast enough, costs the recording and not the
// relay, is reported once, and is tried again after a minute, from the state that the core then has.
func TestWriter_Fails(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*memory, *driver) (mend func()){
		"full": func(m *memory, d *driver) func() {
			m.fails(errors.New("no space left on device"))
			return func() { m.fails(nil) }
		},
		"slow": func(m *memory, d *driver) func() {
			d.w.mu.Lock()
			d.w.queued = maxQueued
			d.w.mu.Unlock()
			return func() {
				d.w.mu.Lock()
				d.w.queued = 0
				d.w.mu.Unlock()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				file := &memory{}
				d := newDriver(5, record(file, 1<<20, false))
				reports := make(chan error, 10)
				d.w.report = func(err error) { reports <- err }
				pass := func() {
					<-time.After(writeInterval)
					synctest.Wait()
				}
				d.run(100)
				pass()
				mend := breakIt(file, d)
				for range 5 {
					d.now += 70 * time.Second
					d.run(20)
					pass()
				}
				if len(reports) != 1 {
					t.Errorf("%d reports while the file fails, want 1: %v", len(reports), <-reports)
				}
				mend()
				for range 2 { // the first finds that the latest could not be written
					d.now += 70 * time.Second
					d.run(100)
				}
				if err := d.w.Close(); err != nil {
					t.Errorf("Close() = %v, want nil", err)
				}
				missed := false
				_, err := Replay(file, func(s *Step) error {
					missed = missed || s.Restart != nil && s.Restart.Missed
					return nil
				})
				if err != nil || !missed {
					t.Errorf("Replay() = %v, says that steps are missing: %v", err, missed)
				}
			})
		})
	}
}

// TestWriter_Hangs: nothing waits for a file that does not answer.
func TestWriter_Hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := &memory{hold: make(chan struct{})}
		d := newDriver(5, record(file, 1<<20, false))
		d.run(1000)
		if err := d.w.Close(); !errors.Is(err, errSlow) {
			t.Errorf("Close() = %v, want %v", err, errSlow)
		}
		close(file.hold)
	})
}

// TestWriter_Fault: a fault of the recorder itself does not reach the relay.
func TestWriter_Fault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := &memory{}
		d := newDriver(5, record(file, 1<<20, false))
		reports := make(chan error, 10)
		d.w.report = func(err error) { reports <- err }
		d.w.coder.index = nil // writing to it panics
		d.run(300)
		synctest.Wait()
		if len(reports) != 1 {
			t.Errorf("%d reports, want 1", len(reports))
		}
		_ = d.w.Close()
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, []byte("somebody's diary, which is worth more than ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(foreign, Config{}); !errors.Is(err, errForeign) || !strings.Contains(err.Error(), foreign) {
		t.Errorf("Open() of another file = %v, want %v", err, errForeign)
	}
	if text, _ := os.ReadFile(foreign); !strings.HasPrefix(string(text), "somebody's diary") {
		t.Errorf("the other file holds %q now", text)
	}
	if _, err := Open(dir, Config{}); err == nil {
		t.Error("Open() of a directory succeeds")
	}

	// A relay that is started again keeps what the one before has recorded.
	path := filepath.Join(dir, "relay.rec")
	var steps []uint64
	for seed := range uint64(2) {
		w, err := Open(path, Config{Size: MinSize})
		if err != nil {
			t.Fatal(err)
		}
		d := newDriver(seed, w)
		d.run(200 + int(seed))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, d.steps)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, want 0600 (%v)", info.Mode(), err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if totals, last := replayed(t, f); totals.Steps != int(steps[0]+steps[1]) || last != steps[1] {
		t.Errorf("%d steps, the last is %d; want %v", totals.Steps, last, steps)
	}
}

// TestReplay_CutOff: a file that ends anywhere is replayed as far as it goes, or says what is wrong.
func TestReplay_CutOff(t *testing.T) {
	t.Parallel()
	file := &memory{}
	d := newDriver(1, record(file, 1<<20, false))
	d.run(300)
	_ = d.w.Close()
	whole := len(file.data)
	for n := 0; n < whole; n += 1 + n/50 {
		_, err := Replay(bytes.NewReader(file.data[:n]), func(*Step) error { return nil })
		if err == nil || !errors.Is(err, ErrTruncated) && !errors.Is(err, errForeign) && !errors.Is(err, errDamaged) {
			t.Errorf("Replay() of %d bytes of %d = %v, want an error that says so", n, whole, err)
		}
	}
}

// FuzzReplay: a file that no relay has made gives an error, whether its checksums are right or not.
func FuzzReplay(f *testing.F) {
	for seed := range uint64(4) {
		file := &memory{}
		d := newDriver(seed, record(file, 1<<20, seed%2 == 0))
		d.run(60)
		_ = d.w.Close()
		s, _ := segmentAt(file, 1, 1<<20)
		f.Add(file.data[s.offset(1<<20)+segmentHeader+frameHeader:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		visit := func(s *Step) error {
			_ = append(s.Lines(&Filter{}), s.Lines(&Filter{Topic: "t1"})...)
			if s.Number > 1_000_000 {
				return io.EOF
			}
			return nil
		}
		_, _ = Replay(bytes.NewReader(data), visit)
		file := &memory{data: preamble(1 << 20)}
		s := newSegment(1)
		w := &Writer{half: 1 << 20, segment: s, used: segmentHeader, file: file}
		ch := w.chunk()
		ch.data = append(ch.data, data...)
		w.save(ch)
		_, _ = Replay(file, visit)
	})
}
