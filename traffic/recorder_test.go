package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// shelf is a store in memory.
type shelf struct {
	mu    sync.Mutex
	rows  []Row
	fail  error // of every call
	after error // of AddTraffic, when it has added
	calls int   // of AddTraffic
}

func (s *shelf) find(r Row) int {
	return slices.IndexFunc(s.rows, func(o Row) bool { return o.Step == r.Step && o.At.Equal(r.At) && o.Writer == r.Writer })
}

func (s *shelf) AddTraffic(_ context.Context, row Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil {
		return s.fail
	}
	if s.find(row) < 0 {
		s.rows = append(s.rows, row)
	}
	return s.after
}

func (s *shelf) Traffic(_ context.Context, step time.Duration, from, to time.Time) ([]Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Row{}
	for _, r := range s.rows {
		if r.Step == step && !r.At.Before(from) && r.At.Before(to) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Row) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Writer, b.Writer)) })
	return list, s.fail
}

func (s *shelf) ReplaceTraffic(_ context.Context, old []Row, sum *Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	for _, r := range old {
		i := s.find(r)
		if i < 0 {
			return waybill.ConflictError(errors.New("it is gone"))
		}
		s.rows = slices.Delete(s.rows, i, i+1)
	}
	if sum != nil && s.find(*sum) < 0 {
		s.rows = append(s.rows, *sum)
	}
	return nil
}

// set makes the store fail, or work again.
func (s *shelf) set(fail, after error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.after = fail, after
}

func (s *shelf) added() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// quiet is an observer that keeps errors.
type quiet struct {
	mu   sync.Mutex
	errs []error
}

func (q *quiet) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (q *quiet) Observe(_ context.Context, e observe.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.errs = append(q.errs, e.Err)
}

// begin runs a recorder over s until stop is called.
func begin(t *testing.T, s *shelf, cfg Config) (r *Recorder, seen *quiet, stop func()) {
	t.Helper()
	seen = &quiet{}
	cfg.Observer = seen
	r, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	<-time.After(10 * time.Second) // not at the moment at which a minute ends
	return r, seen, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}
}

func publish(r *Recorder, relay string, msgs []*waybill.Message, err error) {
	_, end := r.Start(observe.WithName(context.Background(), relay), observe.OpPublish, msgs...)
	end(err)
}

func messages(topic string, n int, age time.Duration) []*waybill.Message {
	var list []*waybill.Message
	for i := range n {
		list = append(list, &waybill.Message{ID: fmt.Sprint(i), Topic: topic, Time: time.Now().Add(-age)})
	}
	return list
}

// load returns what a store has for the last half hour.
func load(t *testing.T, s Store) History {
	t.Helper()
	h, err := Load(t.Context(), s, 30*time.Minute, time.Now().Add(2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRecorder_Counts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		r, _, stop := begin(t, s, Config{})
		boom := errors.New("boom")
		publish(r, "relay-a", messages("orders", 3, 3*time.Millisecond), nil)
		publish(r, "relay-a", messages("mails", 3, 0), observe.BatchError{nil, boom, waybill.UnavailableError(boom)})
		publish(r, "relay-b", messages("orders", 2, 0), waybill.UnavailableError(boom))
		for _, e := range []observe.Event{
			{Op: observe.OpEnqueue, Topic: "orders", Count: 5},
			{Op: observe.OpEnqueue, Topic: "orders", Count: 7, Err: boom},
			{Op: observe.OpPublish, Topic: "orders", Name: "relay-a", Count: 3},
			{Op: observe.OpHandle, Topic: "orders", Name: "billing", Consumer: "billing", Count: 1, Age: time.Second},
			{Op: observe.OpHandle, Topic: "orders", Name: "billing", Consumer: "billing", Count: 1, Err: boom},
			{Op: observe.OpHandle, Topic: "orders", Name: "billing", Consumer: "billing", Count: 1, Err: waybill.UnavailableError(boom)},
			{Op: observe.OpRetry, Topic: "orders", Name: "billing", Consumer: "billing", Count: 1, Err: boom},
			{Op: observe.OpDead, Topic: "mails", Name: "relay-a", Count: 1, Err: boom},
			{Op: observe.OpFailed, Topic: "mails", Name: "relay-a", Count: 1, Err: boom},
			{Op: observe.OpClaim, Name: "relay-a", Count: 100},
		} {
			r.Observe(t.Context(), e)
		}
		stop()
		h := load(t, s)
		for _, tc := range []struct {
			of   Selection
			want string
		}{
			{Selection{Topic: "orders"}, "5 enqueued, 3 published, 1 handled, 1 failed, 1 retried, 0 dead"},
			{Selection{Topic: "mails"}, "0 enqueued, 1 published, 0 handled, 1 failed, 0 retried, 2 dead"},
			{Selection{}, "5 enqueued, 4 published, 1 handled, 2 failed, 1 retried, 2 dead"},
			{Selection{Consumer: "billing"}, "0 enqueued, 0 published, 1 handled, 1 failed, 1 retried, 0 dead"},
			{Selection{Relay: "relay-a"}, "0 enqueued, 4 published, 0 handled, 1 failed, 0 retried, 2 dead"},
			{Selection{Relay: "relay-b"}, "0 enqueued, 0 published, 0 handled, 0 failed, 0 retried, 0 dead"},
		} {
			c := h.Total(tc.of)
			got := fmt.Sprintf("%d enqueued, %d published, %d handled, %d failed, %d retried, %d dead", c.Enqueued, c.Published, c.Handled, c.Failed, c.Retried, c.Dead)
			if got != tc.want {
				t.Errorf("%+v: %s, want %s", tc.of, got, tc.want)
			}
		}
		if c := h.Total(Selection{}); c.PublishLag.Total() != 4 || c.HandleLag.Total() != 1 || c.HandleLag.Quantile(.5) < 512*time.Millisecond {
			t.Errorf("lags = %v and %v", c.PublishLag, c.HandleLag)
		}
	})
}

// TestRecorder_OneCallEachMinute: whatever is counted, a process makes one call a minute, and none in which nothing
// happened.
func TestRecorder_OneCallEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		r, _, stop := begin(t, s, Config{})
		for range 10 {
			for range 100 {
				publish(r, "relay", messages("orders", 10, 0), nil)
			}
			time.Sleep(Minute)
		}
		time.Sleep(10 * Minute)
		if got := s.added(); got != 10 {
			t.Errorf("%d calls, want 10", got)
		}
		stop()
		if got := load(t, s); got.Total(Selection{}).Published != 10*100*10 {
			t.Errorf("%d messages are counted, want %d", got.Total(Selection{}).Published, 10*100*10)
		}
	})
}

// TestRecorder_Outage: what the store does not take is recorded later, once, also if only the answer was lost.
func TestRecorder_Outage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		r, seen, stop := begin(t, s, Config{})
		s.set(nil, errors.New("the answer was lost"))
		for n := range 10 {
			publish(r, "relay", messages("orders", 1, 0), nil)
			time.Sleep(Minute)
			if n == 4 {
				s.set(errors.New("no store"), nil)
			}
		}
		s.set(nil, nil)
		time.Sleep(Minute)
		stop()
		h := load(t, s)
		busy := 0
		for _, c := range h.Of(Selection{}) {
			if c.Published == 1 {
				busy++
			}
		}
		if busy != 10 || h.Total(Selection{}).Published != 10 {
			t.Errorf("%d minutes with a message, %d messages, want 10 of both", busy, h.Total(Selection{}).Published)
		}
		if len(seen.errs) == 0 {
			t.Error("no error was observed")
		}
	})
}

// TestRecorder_MemoryIsBounded: an outage of a week takes as much memory as one of three hours.
func TestRecorder_MemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{fail: errors.New("no store")}
		r, _, stop := begin(t, s, Config{})
		for n := range 2 * maxPending {
			publish(r, "relay", messages(fmt.Sprint("topic-", n), 1, 0), nil)
			time.Sleep(Minute)
		}
		for n := range 3 * maxNames {
			publish(r, fmt.Sprint("relay-", n), messages(fmt.Sprint("topic-", n), 1, 0), nil)
		}
		stop()
		if len(r.pending) != maxPending {
			t.Errorf("%d rows are pending, want %d", len(r.pending), maxPending)
		}
		last, err := decode(r.pending[maxPending-1])
		if err != nil || len(last.Topics) > maxNames+1 || last.Topics[Other].Published != 2*maxNames {
			t.Errorf("%d topics, %+v of others, %v", len(last.Topics), last.Topics[Other], err)
		}
	})
}

// TestRecorder_Backlog: it is read each minute, and less often if that takes long.
func TestRecorder_Backlog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, took atomic.Int64
		s := &shelf{}
		_, _, stop := begin(t, s, Config{Backlog: func(_ context.Context, i *Interval) error {
			reads.Add(1)
			time.Sleep(time.Duration(took.Load()))
			i.SetBacklog("orders", 10*reads.Load(), time.Minute)
			return nil
		}})
		time.Sleep(5 * Minute)
		if n := reads.Load(); n != 5 {
			t.Errorf("%d readings in five minutes, want 5", n)
		}
		took.Store(int64(4 * time.Second)) // more than a fiftieth of three minutes
		time.Sleep(9 * Minute)
		if n := reads.Load(); n > 8 {
			t.Errorf("%d readings, want few of those that take long", n)
		}
		took.Store(0)
		stop()
		h := load(t, s)
		if c := h.Total(Selection{}); c.Backlog < 50 || c.Oldest != time.Minute {
			t.Errorf("backlog = %+v", c)
		}
	})
}

func TestRecorder_RollsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		r, _, stop := begin(t, s, Config{})
		for range 5 * 60 {
			publish(r, "relay", messages("orders", 1, 0), nil)
			time.Sleep(Minute)
		}
		stop()
		steps := map[time.Duration]int{}
		for _, row := range s.rows {
			steps[row.Step]++
		}
		if steps[Minute] > 4*60 || steps[TenMinutes] < 6 {
			t.Errorf("rows by step = %v, want the old ones rolled up", steps)
		}
	})
}
