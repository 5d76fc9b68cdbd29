package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/recording"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay/record"
)

// recorder returns a recorder to a new file.
func recorder(t *testing.T) (*record.Recorder, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.rec")
	rec, err := record.Open(path, record.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return rec, path
}

// TestRecorder: what a relay has done is done again by its core alone, and the file has nothing of what
// messages and errors hold.
func TestRecorder(t *testing.T) {
	t.Parallel()
	const messages = 500
	src := newFakeSource()
	b := &fakeBroker{answer: func(m contract.Outgoing) (time.Duration, error) {
		switch {
		case strings.HasSuffix(m.ID, "7"):
			return time.Millisecond, waybill.PermanentError(waybill.ReasonRejected, errors.New("password swordfish"))
		case strings.HasSuffix(m.ID, "3") && !m.Resent:
			return time.Millisecond, errors.New("password swordfish")
		}
		return time.Millisecond, nil
	}}
	rec, path := recorder(t)
	inBubble(t, src, []Destination{{Publisher: b}}, Config{BatchSize: 20, Recorder: rec}, func(*testing.T, *Relay) {
		for n := range messages {
			m := message("orders", fmt.Sprint("customer-", n%40), n)
			m.ID = fmt.Sprint("order ", n)
			m.Payload, m.Headers = []byte("secret payload"), map[string]string{"authorization": "secret header"}
			src.add(m)
		}
		pass(2 * time.Minute)
	})
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"swordfish", "secret", "authorization", "customer-", waybill.DefaultTenant} {
		if bytes.Contains(file, []byte(text)) {
			t.Errorf("the file holds %q", text)
		}
	}
	accepted, dead := 0, 0
	_, err = recording.Replay(bytes.NewReader(file), func(s *recording.Step) error {
		for _, cmd := range s.Commands {
			switch report, _ := cmd.(relaycore.Report); {
			case report.What == relaycore.PublishedNow:
				accepted += len(report.Messages)
			case report.What == relaycore.Dead:
				dead++
			}
		}
		return nil
	})
	if err != nil || accepted != messages-50 || dead != 50 || len(b.ids()) != accepted || src.left() != 0 {
		t.Errorf("Replay() = %v with %d accepted and %d dead of %d; %d rows are left", err, accepted, dead, messages, src.left())
	}
}

// TestRecorder_SecondRun: a relay that runs again is recorded again, and one relay at a time is.
func TestRecorder_SecondRun(t *testing.T) {
	t.Parallel()
	rec, path := recorder(t)
	for range 2 {
		inBubble(t, newFakeSource(), []Destination{{Publisher: &fakeBroker{}}}, Config{Recorder: rec}, func(t *testing.T, _ *Relay) {
			var seen loops
			inner, err := New(newFakeSource(), &fakeBroker{}, Config{Recorder: rec, Observer: &seen})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-time.After(time.Second)
				cancel()
			}()
			if err := inner.Run(ctx); err != nil || len(seen.failed("relay record")) != 1 {
				t.Errorf("Run() with another relay's recorder = %v, reports %v, want one", err, seen.failed("relay record"))
			}
		})
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs := 0
	_, err = recording.Replay(f, func(s *recording.Step) error {
		if s.Restart != nil && s.Restart.NewRun {
			runs++
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("Replay() = %v with %d runs, want 2", err, runs)
	}
}

// TestRecorder_Fails: a relay whose recording cannot be written goes on, and says so once.
func TestRecorder_Fails(t *testing.T) {
	t.Parallel()
	rec, _ := recorder(t)
	if err := rec.Close(); err != nil { // what is written to a closed file fails, or is never written
		t.Fatal(err)
	}
	src, b := newFakeSource(), &fakeBroker{}
	inBubble(t, src, []Destination{{Publisher: b}}, Config{Recorder: rec}, func(t *testing.T, _ *Relay) {
		for n := range 100 {
			src.add(message("orders", "k", n))
		}
		pass(time.Minute)
	})
	if got := len(b.ids()); got != 100 {
		t.Errorf("%d messages arrived, want 100", got)
	}
}

// loops is an observer that keeps what background loops fail with.
type loops struct {
	observe.Observer
	mu   sync.Mutex
	errs map[string][]error
}

func (l *loops) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (l *loops) Observe(_ context.Context, e observe.Event) {
	if e.Op != observe.OpLoop || e.Err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errs == nil {
		l.errs = make(map[string][]error)
	}
	l.errs[e.Loop] = append(l.errs[e.Loop], e.Err)
}

func (l *loops) failed(name string) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[name]
}
